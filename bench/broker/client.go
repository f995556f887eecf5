package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/wire"
)

// payload is what Claude sends before a tool runs. Each call has a number of its
// own in tool_use_id.
const (
	payload = `{"session_id":"3f1c9a52-6f0e-4a57-9d0b-7c1f2b8e4d66","transcript_path":"/home/u/.claude/projects/p/3f1c9a52.jsonl",` +
		`"cwd":"/home/u/p","permission_mode":"default","hook_event_name":"PreToolUse","tool_name":%q,"tool_input":%s,"tool_use_id":"toolu_%s"}`
	readInput = `{"file_path":%q,"offset":120,"limit":80}`
	bashInput = `{"command":"make deploy","description":"Deploy the application"}`
	passed    = `{}`
	number    = "%016x"
)

// order tells the client what to do in one slice.
type order struct {
	Socket  string `json:"socket"`
	File    string `json:"file"` // what is read
	Clients int    `json:"clients"`
	ForNS   int64  `json:"for_ns"`
	Changes bool   `json:"changes"` // call a tool that changes something, instead of one that reads
}

// slice is what came of it.
type slice struct {
	Took  []int64 `json:"took"` // nanoseconds of each call
	ForNS int64   `json:"for_ns"`
	Error string  `json:"error"`
}

func now() clock.Instant { return clock.System{}.Now() }

// host is a session's anchor: it registers, as a launcher does, then runs the
// gate, as a runtime does.
func host(stdin io.Reader, stdout io.Writer) error {
	p, err := paths.Resolve(os.Getenv, uint32(os.Getuid())) //nolint:gosec // the kernel's uids are 32 bits
	if err != nil {
		return err
	}
	_, conn, err := client.Register(context.Background(), p, wire.Register{Runtime: "claude", Dir: "/", Command: "bench", Hooks: wire.ProjectHooks{State: wire.ProjectAbsent}}, nil)
	if err != nil {
		return err
	}
	if err := conn.Close(); err != nil { // as exec does
		return err
	}
	gate, err := gateName()
	if err != nil {
		return err
	}
	cmd := exec.Command(gate, "-role", "client") //nolint:gosec // a program of ours
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, os.Stderr
	return cmd.Run()
}

// drive is the client: a slice for each line of stdin.
func drive(stdin io.Reader, stdout io.Writer) error {
	for lines := bufio.NewScanner(stdin); lines.Scan(); {
		var o order
		if err := strictjson.Decode(lines.Bytes(), &o); err != nil {
			return err
		}
		s := o.run()
		if err := json.MarshalWrite(stdout, s); err != nil {
			return err
		}
		if _, err := stdout.Write([]byte{'\n'}); err != nil {
			return err
		}
	}
	return nil
}

var calls atomic.Uint64

// run makes calls from all clients at once.
func (o order) run() (s slice) {
	tool, input, want := "Read", fmt.Sprintf(readInput, o.File), passed
	if o.Changes {
		tool, input, want = "Bash", bashInput, "checkpoint 7"
	}
	dial, err := o.settle()
	if err != nil {
		return slice{Error: err.Error()}
	}
	anchor := uint32(os.Getppid()) //nolint:gosec // the kernel's pids are that small
	began, end := now(), now().Add(time.Duration(o.ForNS))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range o.Clients {
		wg.Go(func() {
			var took []int64
			var err error
			for at := now(); at < end && err == nil; {
				body := fmt.Appendf(nil, payload, tool, input, fmt.Sprintf(number, calls.Add(1)))
				frame := wire.AppendRequest(nil, wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleDecide, Peer: anchor, Body: body})
				at = now()
				err = call(dial, o.Socket, frame, want)
				after := now()
				took, at = append(took, int64(after.Sub(at))), after
			}
			mu.Lock()
			defer mu.Unlock()
			s.Took = append(s.Took, took...)
			if err != nil {
				s.Error = err.Error()
			}
		})
	}
	wg.Wait()
	s.ForNS = int64(now().Sub(began))
	return s
}

// settle puts the clients where they belong: one thread that waits in the kernel
// on a processor of its own, or many on the poller.
func (o order) settle() (dialer, error) {
	at, err := processors()
	if err != nil {
		return nil, err
	}
	if o.Clients == 1 {
		return dialBlocking, keep(os.Getpid(), &at.client)
	}
	return dialPoller, keep(os.Getpid(), &at.all)
}

// call is one call as the gate makes it, and has to pass.
func call(dial dialer, socket string, frame []byte, want string) error {
	conn, err := dial(socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write(frame); err != nil {
		return err
	}
	reply, err := wire.ReadReply(conn, wire.MaxOutput)
	if err != nil {
		return err
	}
	if reply.Exit != 0 || !bytes.Contains(reply.Out, []byte(want)) {
		return fmt.Errorf("no pass: %s%s", reply.Out, reply.Err)
	}
	return nil
}

// caller speaks to a client process.
type caller struct {
	in  io.Writer
	out *bufio.Reader
}

func (c caller) do(o order) (s slice, err error) {
	line, err := json.Marshal(o)
	if err != nil {
		return s, err
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		return s, err
	}
	answer, err := c.out.ReadBytes('\n')
	if err != nil {
		return s, fmt.Errorf("reading a client's answer: %w", err)
	}
	if err := strictjson.Decode(bytes.TrimSpace(answer), &s); err != nil {
		return s, err
	}
	if s.Error != "" || len(s.Took) == 0 {
		return s, errors.New("a client's call failed: " + strings.TrimSpace(s.Error))
	}
	return s, nil
}
