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
	"slices"
	"testing"
	"time"

	"leaseguard.internal/internal/agenttest"
	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/sandbox"
	"leaseguard.internal/internal/sandbox/sandboxtest"
	"leaseguard.internal/internal/wire"
)

var programs client.Programs

func TestMain(m *testing.M) {
	agenttest.Enter()
	os.Exit(sandboxtest.Main(m, sandboxtest.Failpoints, func(p client.Programs) { programs = p }))
}

// config lets root run these tests too, and a change pass without a ZVM.
const config = `[identity]
allow_root_sessions = true

[checkpoint]
self = "none"
`

// world is a broker and sessions that outlive it.
type world struct {
	*sandboxtest.World
	agents map[string]*agenttest.Agent // by session
	ids    []string
}

func start(t *testing.T, sessions int) *world {
	t.Helper()
	w := &world{World: sandboxtest.New(t, programs, os.Environ()), agents: map[string]*agenttest.Agent{}}
	t.Cleanup(func() {
		for _, a := range w.agents {
			a.Kill()
		}
	})
	w.Must(w.Configure(config))
	w.Must(w.StartBroker(w.Ctx()))
	for range sessions {
		w.launch()
	}
	return w
}

// launch adds a session that can be approved: it runs, and its gate was heard.
func (w *world) launch() {
	w.T.Helper()
	a, err := agenttest.Start()
	w.Must(err)
	s, err := a.Register(w.Paths, wire.Register{Runtime: "exec", Dir: "/", Command: "kills"})
	if err != nil {
		a.Kill()
		w.T.Fatal(err)
	}
	w.agents[s.ID], w.ids = a, append(w.ids, s.ID)
	w.Must(w.Wait(w.Ctx(), func() bool {
		out, _, err := w.call(s.ID, "Read", "")
		return err == nil && out == passed
	}))
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
