//go:build kills

// Package kills kills a real broker, again and again at random moments, while
// real processes ask it for all that it grants, and holds what they saw against
// what the next broker finds: no token counts twice, no pass without its durable
// record, nobody VERIFIED.
//
// GUARD_SIZE=nightly kills and asks ten times and a hundred times as often.
package kills

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"leaseguard.internal/internal/agenttest"
	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/sandbox"
	"leaseguard.internal/internal/wire"
)

var programs client.Programs

func TestMain(m *testing.M) {
	agenttest.Enter()
	os.Exit(build(m))
}

// nightly is the size of the night's run; the change's is the smaller one.
func nightly(change, night int) int {
	if os.Getenv("GUARD_SIZE") == "nightly" {
		return night
	}
	return change
}

// build compiles the programs once, with fail points in the broker.
func build(m *testing.M) int {
	// Children die with the thread that started them, and so with this one.
	runtime.LockOSThread()
	dir, err := os.MkdirTemp("", "guard-kills-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cmd := exec.Command("go", "build", "-tags", "failpoint", "-o", dir+"/", "./cmd/guard", "./cmd/guard-gate", "./cmd/guard-broker")
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the programs: %v\n%s", err, out)
		return 1
	}
	programs = client.Programs{Guard: filepath.Join(dir, "guard"), Broker: filepath.Join(dir, "guard-broker"), Gate: filepath.Join(dir, "guard-gate")}
	return m.Run()
}

// config lets root run these tests too, and a change pass without a ZVM.
const config = `[identity]
allow_root_sessions = true

[checkpoint]
self = "none"
`

// world is a broker and sessions that outlive it.
type world struct {
	*sandbox.Sandbox
	t      *testing.T
	agents map[string]*agenttest.Agent // by session
	ids    []string
}

func start(t *testing.T, sessions int) *world {
	t.Helper()
	box, err := sandbox.New(programs, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Sandbox: box, t: t, agents: map[string]*agenttest.Agent{}}
	t.Cleanup(func() {
		for _, a := range w.agents {
			a.Kill()
		}
		if err := box.Close(); err != nil {
			t.Errorf("closing the sandbox: %v", err)
		}
	})
	w.must(box.Configure(config))
	w.must(w.StartBroker(w.ctx()))
	for range sessions {
		w.launch()
	}
	return w
}

// launch adds a session that can be approved: it runs, and its gate was heard.
func (w *world) launch() {
	w.t.Helper()
	a, err := agenttest.Start()
	w.must(err)
	s, err := a.Register(w.Paths, wire.Register{Runtime: "exec", Dir: "/", Command: "kills"})
	if err != nil {
		a.Kill()
		w.t.Fatal(err)
	}
	w.agents[s.ID], w.ids = a, append(w.ids, s.ID)
	w.must(w.Wait(w.ctx(), func() bool {
		out, _, err := w.call(s.ID, "Read", "")
		return err == nil && out == passed
	}))
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	w.t.Cleanup(cancel)
	return ctx
}

// kill ends the broker as no program can prevent.
func (w *world) kill() {
	w.t.Helper()
	w.must(syscall.Kill(w.BrokerPID(), syscall.SIGKILL))
	if code := w.WaitBroker(); code != -1 {
		w.t.Fatalf("the broker ended with %d instead of being killed", code)
	}
}

// What a request came to.
const (
	passed  = "passed" // or was granted
	refused = "refused"
	unsent  = "unsent"  // no broker took it
	unknown = "unknown" // it was sent, and nobody answered
)

// operate asks as an operator. detail is the token that was minted, or the code
// of the refusal.
func (w *world) operate(ctl wire.Control) (out, detail string) {
	if slices.Contains([]wire.Verb{wire.VerbVerify, wire.VerbApprove, wire.VerbRenew, wire.VerbPromote}, ctl.Verb) {
		ctl.Documents = []wire.Document{{Name: "AGENTS.md", Missing: true}}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := client.Dial(w.Paths).Do(ctx, ctl, nil)
	var no *wire.Error
	switch {
	case err == nil && r.Grant != nil:
		return passed, r.Grant.Token
	case err == nil:
		return passed, ""
	case errors.As(err, &no):
		return refused, no.Code
	case errors.Is(err, peer.ErrUnavailable):
		return unsent, ""
	}
	return unknown, ""
}

// call asks for a tool, from within the session; detail is the code of a denial.
func (w *world) call(session, tool, use string) (out, detail string, err error) {
	body := fmt.Sprintf(`{"hook_event_name":"PreToolUse","session_id":"s","tool_name":%q,"tool_input":{},"tool_use_id":%q}`, tool, use)
	r, err := w.agents[session].Send(w.Paths, wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleDecide, Body: []byte(body)})
	a := sandbox.Answer{Out: r.Out, Err: r.Err, Exit: int(r.Exit)}
	switch {
	case errors.Is(err, agenttest.ErrNotSent):
		return unsent, "", nil
	case errors.Is(err, agenttest.ErrEnded):
		return unknown, "", err
	case err != nil:
		return unknown, "", nil //nolint:nilerr // the broker died over it
	}
	verdict, reason := a.Read()
	if verdict == "pass" {
		return passed, "", nil
	}
	return refused, sandbox.Code(reason), nil
}
