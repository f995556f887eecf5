package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/wire"
)

// ErrNotLaunched means that guard launch ended without starting the agent.
var ErrNotLaunched = errors.New("no session was started")

// Launch starts a scripted agent as a session: flags are guard launch's own,
// argv starts a program that calls Serve on its stdin and stdout.
func (s *Sandbox) Launch(ctx context.Context, flags []string, argv ...string) (*Agent, error) {
	args := append(append([]string{"launch", "exec"}, flags...), "--")
	cmd := exec.Command(s.Programs.Guard, append(args, argv...)...) // #nosec G204 -- guard's own program
	cmd.Env, cmd.Dir = s.Env, s.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	a := &Agent{cmd: cmd, in: in, answers: bufio.NewScanner(out), gate: []string{
		s.Programs.Gate, "claude", "--socket", s.Paths.BrokerSocket, "--broker-uid", strconv.Itoa(os.Getuid()),
	}}
	a.answers.Buffer(nil, maxLine)
	s.agents = append(s.agents, a)
	anchor, err := peer.Open(cmd.Process.Pid)
	if err != nil {
		a.End()
		return nil, err
	}
	defer func() { _ = anchor.Close() }()
	err = s.Wait(ctx, func() bool {
		if !anchor.Alive() {
			return true // guard launch has refused
		}
		st, err := s.Status(ctx)
		for _, x := range st.Sessions {
			if err == nil && x.Launched && x.AnchorPID == cmd.Process.Pid {
				a.Session = x.ID
			}
		}
		return a.Session != ""
	})
	if err != nil || a.Session == "" {
		a.End()
		return nil, fmt.Errorf("launching a session: %w: %s", errors.Join(err, ErrNotLaunched), said.String())
	}
	return a, nil
}

// Status asks the broker as guard status --json does.
func (s *Sandbox) Status(ctx context.Context) (wire.Status, error) {
	var st wire.Status
	out, err := s.Guard(ctx, "status", "--json")
	if err != nil {
		return st, err
	}
	return st, json.Unmarshal(out, &st)
}

// PID is the session's anchor.
func (a *Agent) PID() int { return a.cmd.Process.Pid }

// Calls counts what Call has asked.
func (a *Agent) Calls() int { return a.calls }

// End ends the agent, and with it its session. It may be called twice.
func (a *Agent) End() {
	_ = a.in.Close()
	if a.cmd.ProcessState == nil {
		end(a.cmd)
	}
}
