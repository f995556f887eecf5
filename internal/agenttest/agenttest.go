// Package agenttest gives tests sessions that are real processes: each is the
// test program itself, started once more, registers as a session's anchor and
// sends what a gate would send, many requests at once if it is told to.
//
// A package's TestMain has to be
//
//	func TestMain(m *testing.M) { agenttest.Enter(); os.Exit(m.Run()) }
//
// A process ends with its Agent, and with the test program, whatever happens to
// that. It outlives the broker: it connects anew for each request.
package agenttest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/wire"
)

// role makes the test program play an agent.
const role = "LEASEGUARD_AGENTTEST"

// order is what an agent is told, answer what it replies, under the same number.
type order struct {
	N        int            `json:"n"`
	Paths    paths.Paths    `json:"paths"`
	Register *wire.Register `json:"register"` // else Frame is sent
	Frame    []byte         `json:"frame"`
}

type answer struct {
	N       int           `json:"n"`
	Session *wire.Session `json:"session"`
	Refused *wire.Error   `json:"refused"`
	Reply   wire.Reply    `json:"reply"`
	Sent    bool          `json:"sent"` // the broker took the connection
	Error   string        `json:"error"`
}

// ErrNotSent means that no broker took the connection: it can't have done
// anything.
var ErrNotSent = errors.New("no broker answers")

// ErrEnded means that the agent's process is gone.
var ErrEnded = errors.New("the agent has ended")

// Enter does nothing in the test itself, and never returns in an agent.
func Enter() {
	if os.Getenv(role) != "" {
		serve(os.Stdin, os.Stdout)
		os.Exit(0)
	}
}

// Agent is one such process. Its methods may be called by several goroutines.
type Agent struct {
	cmd *exec.Cmd
	in  io.WriteCloser

	mu      sync.Mutex
	next    int
	waiting map[int]chan answer
	ended   chan struct{} // closed when it answers no more
}

// Start starts an agent that is in no session yet.
func Start() (*Agent, error) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env, cmd.Stderr, cmd.Dir = append(os.Environ(), role+"=1"), os.Stderr, "/"
	// Ctrl-C reaches the test, which ends its agents in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting an agent: %w", err)
	}
	a := &Agent{cmd: cmd, in: in, waiting: map[int]chan answer{}, ended: make(chan struct{})}
	go a.listen(out)
	return a, nil
}

// Kill ends the agent at once and reaps it. It may be called twice.
func (a *Agent) Kill() {
	_ = a.cmd.Process.Kill() // it may have ended
	_ = a.in.Close()
	<-a.ended
	_ = a.cmd.Wait()
}

// Register makes the agent the anchor of a session that is launched right away.
func (a *Agent) Register(p paths.Paths, r wire.Register) (wire.Session, error) {
	if r.Hooks.State == "" {
		r.Hooks.State = wire.ProjectAbsent
	}
	got, err := a.do(order{Paths: p, Register: &r})
	switch {
	case err != nil:
		return wire.Session{}, err
	case got.Refused != nil:
		return wire.Session{}, got.Refused
	}
	return *got.Session, nil
}

// Send has the agent send one request over a connection of its own.
func (a *Agent) Send(p paths.Paths, req wire.Request) (wire.Reply, error) {
	got, err := a.do(order{Paths: p, Frame: wire.AppendRequest(nil, req)})
	return got.Reply, err
}

func (a *Agent) do(o order) (answer, error) {
	got := make(chan answer, 1)
	a.mu.Lock()
	a.next++
	o.N = a.next
	a.waiting[o.N] = got
	line, err := json.Marshal(o)
	if err == nil {
		_, err = a.in.Write(append(line, '\n'))
	}
	a.mu.Unlock()
	if err != nil {
		return answer{}, fmt.Errorf("ordering an agent: %w", err)
	}
	select {
	case r := <-got:
		if r.Error == "" {
			return r, nil
		}
		if !r.Sent {
			return r, fmt.Errorf("%w: %s", ErrNotSent, r.Error)
		}
		return r, errors.New(r.Error)
	case <-a.ended:
		return answer{}, ErrEnded
	}
}

// listen hands answers to those that wait for them.
func (a *Agent) listen(out io.Reader) {
	defer close(a.ended)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var r answer
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			_, _ = fmt.Fprintf(os.Stderr, "agenttest: an agent said %.200q: %v\n", lines.Text(), err)
			return
		}
		a.mu.Lock()
		got := a.waiting[r.N]
		delete(a.waiting, r.N)
		a.mu.Unlock()
		if got != nil {
			got <- r
		}
	}
}
