package broker

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"leaseguard.internal/broker/checkpoint"
	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// TestAttack17_SuspendAndClockSteps: three hours of CLOCK_BOOTTIME end it; a step of
// the wall clock, in either direction, changes nothing.
func TestAttack17_SuspendAndClockSteps(t *testing.T) {
	f := newFixture(t, nil)
	f.verified()
	f.clock.StepWall(-48 * time.Hour)
	f.expect(f.ask("Write"), "")
	f.clock.StepWall(96 * time.Hour)
	f.expect(f.ask("Write"), "")
	f.clock.Advance(299 * time.Second)
	f.expect(f.ask("Write"), "")
	f.clock.Advance(3 * time.Hour)
	f.expect(f.ask("Write"), "lease_expired")
}

// askAndHold makes a call whose checkpoint waits for hold.
func (f *fixture) askAndHold(hold chan struct{}) <-chan wire.Reply {
	f.t.Helper()
	f.zvm.set(hold, nil)
	answer := make(chan wire.Reply, 1)
	seen := f.zvm.asked()
	go func() { answer <- f.ask("Write") }()
	f.eventually("the checkpoint is under way", func() bool { return f.zvm.asked() > seen })
	return answer
}

// TestRevokedWhileJudged: a lease that goes while the checkpoint is taken
// denies the call, even if it has been verified anew by then.
func TestRevokedWhileJudged(t *testing.T) {
	f := newFixture(t, nil)
	s := f.verified()
	for _, again := range []bool{false, true} {
		hold := make(chan struct{})
		answer := f.askAndHold(hold)
		f.verb(context.Background(), wire.Control{Verb: wire.VerbRevoke, Session: s.ID}, nil)
		if again {
			f.approve(s.ID)
		}
		close(hold)
		f.expect(<-answer, "lease_revoked")
		f.zvm.set(nil, nil)
		f.approve(s.ID)
		f.expect(f.ask("Write"), "")
	}
}

// TestRenewedWhileJudged: a renewal lowers nothing, so the call passes.
func TestRenewedWhileJudged(t *testing.T) {
	f := newFixture(t, nil)
	s := f.verified()
	hold := make(chan struct{})
	answer := f.askAndHold(hold)
	ctl := wire.Control{Verb: wire.VerbRenew, Session: s.ID, Documents: []wire.Document{{Name: "AGENTS.md", Missing: true}}}
	if r := f.verb(context.Background(), ctl, nil); r.Error != nil || r.Grant.ExpiresInS != 300 {
		t.Fatalf("renewing: %+v, %v", r.Grant, r.Error)
	}
	close(hold)
	f.expect(<-answer, "")
}

// TestNothingFailsOpen: whatever the checkpoint's side answers that isn't a
// confirmation is a denial.
func TestNothingFailsOpen(t *testing.T) {
	f := newFixture(t, nil)
	f.verified()
	for name, tt := range map[string]struct {
		err  error
		code string
	}{
		"an error of any kind":       {context.DeadlineExceeded, "checkpoint_failed"},
		"a refusal without a code":   {&checkpoint.Refusal{}, "checkpoint_failed"},
		"a refusal":                  {&checkpoint.Refusal{Code: verdict.CheckpointGone, Object: `"app-01"`, Cause: "it vanished", Next: "try again"}, "checkpoint_gone"},
		"a refusal in another error": {&wrapped{&checkpoint.Refusal{Code: verdict.CheckpointTimeout}}, "checkpoint_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			f.zvm.set(nil, tt.err)
			f.expect(f.ask("Write"), tt.code)
		})
	}
}

type wrapped struct{ error }

func (w *wrapped) Unwrap() error { return w.error }

// TestBudgetNests: the slow step has what the launch budget leaves.
func TestBudgetNests(t *testing.T) {
	f := newFixture(t, func(c *config.Config) { c.Launch.Budget = time.Second })
	f.verified()
	f.zvm.set(make(chan struct{}), nil)
	f.expect(f.ask("Write"), "checkpoint_failed")
}

// TestSessionIsNoOperator: inside a session, status shows that session and
// every other verb is refused.
func TestSessionIsNoOperator(t *testing.T) {
	f := newFixture(t, nil)
	f.session()
	for _, verb := range []wire.Verb{wire.VerbApprove, wire.VerbRevoke, wire.VerbVerify, wire.VerbPromote, wire.VerbStop, wire.VerbAudit, wire.VerbContext, "no such verb"} {
		if r := f.operate(wire.Control{Verb: verb, All: verb == wire.VerbRevoke}); r.Error == nil || r.Error.Code != "not_operator" {
			t.Errorf("%s inside a session: %+v", verb, r)
		}
	}
	r := f.operate(wire.Control{Verb: wire.VerbStatus})
	if r.Error != nil || len(r.Status.Sessions) != 1 || !r.Status.Sessions[0].OnlySelf {
		t.Errorf("status inside a session: %+v", r)
	}
}

func TestRegistrationIsRefused(t *testing.T) {
	f := newFixture(t, nil)
	for name, r := range map[string]wire.Register{
		"an unknown runtime":   {Runtime: "cursor", Dir: "/"},
		"a relative directory": {Runtime: "exec", Dir: "x"},
		"a huge command":       {Runtime: "exec", Dir: "/", Command: strings.Repeat("x", 5000)},
		"an unknown id":        {Runtime: "exec", Dir: "/", Resume: "0123456789abcdef"},
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			if s, werr := f.register(r); werr == nil {
				t.Errorf("it was registered as %s", s.ID)
			}
		})
	}
	f.t = t
	f.session()
	if _, werr := f.register(wire.Register{Runtime: "exec", Dir: "/"}); werr == nil {
		t.Error("one process became two anchors")
	}
}

func TestRootSessions(t *testing.T) {
	f := newFixture(t, func(c *config.Config) { c.Identity.AllowRootSessions = false })
	s, werr := f.register(wire.Register{Runtime: "exec", Dir: "/"})
	if root := os.Getuid() == 0; root != (werr != nil && werr.Code == "root_session") {
		t.Errorf("as uid %d: session %q, error %v", os.Getuid(), s.ID, werr)
	}
}

// TestApproveNeedsTheGate: nothing of the session is touched before its gate
// was heard.
func TestApproveNeedsTheGate(t *testing.T) {
	f := newFixture(t, nil)
	s := f.session()
	if r := f.approve(s.ID); r.Error == nil || r.Error.Code != "gate_unseen" {
		t.Fatalf("approved without a gate event: %+v", r)
	}
	f.expect(f.ask("Write"), "lease_unverified")
	if r := f.approve(s.ID); r.Error != nil {
		t.Fatalf("after a gate event: %v", r.Error)
	}
}

// TestBindingChanged: a document that changed between the two steps refuses the
// second, and burns the token.
func TestBindingChanged(t *testing.T) {
	f := newFixture(t, nil)
	s := f.session()
	f.expect(f.ask("Read"), "")
	doc := func(verb wire.Verb, token, text string) wire.Result {
		return f.verb(context.Background(), wire.Control{Verb: verb, Session: s.ID, Token: token,
			Documents: []wire.Document{{Name: "AGENTS.md", Size: len(text)}}}, []byte(text))
	}
	begun := doc(wire.VerbVerify, "", "be careful")
	if begun.Error != nil || begun.Grant.Token == "" {
		t.Fatalf("verify: %+v", begun)
	}
	if r := doc(wire.VerbPromote, begun.Grant.Token, "be careless"); r.Error == nil || r.Error.Code != "binding_changed" {
		t.Fatalf("promote with another document: %+v", r)
	}
	if r := doc(wire.VerbPromote, begun.Grant.Token, "be careful"); r.Error == nil || r.Error.Code != "token_used" {
		t.Fatalf("the burnt token: %+v", r)
	}
	for _, bad := range [][]wire.Document{nil, {{Name: "OTHER.md"}}, {{Name: "AGENTS.md", Size: 99}}, {{Name: "AGENTS.md", Size: -1}}, {{Name: "AGENTS.md"}, {Name: "AGENTS.md"}}} {
		if r := f.verb(context.Background(), wire.Control{Verb: wire.VerbVerify, Session: s.ID, Documents: bad}, nil); r.Error == nil || r.Error.Code != "bad_request" {
			t.Errorf("documents %+v: %+v", bad, r)
		}
	}
}

// TestRestartKeepsIdsAndNoAuthority: sessions whose anchor lives come back
// UNVERIFIED under their id; the lease and its token don't.
func TestRestartKeepsIdsAndNoAuthority(t *testing.T) {
	f := newFixture(t, nil)
	s := f.verified()
	begun := f.verb(context.Background(), wire.Control{Verb: wire.VerbVerify, Session: s.ID, Documents: []wire.Document{{Name: "AGENTS.md", Missing: true}}}, nil)
	f.stop()
	f.start(nil)
	f.expect(f.ask("Write"), "lease_unverified")
	r := f.verb(context.Background(), wire.Control{Verb: wire.VerbPromote, Session: s.ID, Token: begun.Grant.Token, Documents: []wire.Document{{Name: "AGENTS.md", Missing: true}}}, nil)
	if r.Error == nil {
		t.Fatal("a token of the broker before was accepted")
	}
	if r := f.approve(s.ID); r.Error != nil {
		t.Fatalf("the gate that was seen before must count: %v", r.Error)
	}
	f.expect(f.ask("Write"), "")
}

// operate sends a control request to the operator socket.
func (f *fixture) operate(ctl wire.Control) wire.Result {
	f.t.Helper()
	res, err := client.Dial(f.opt.Paths).Do(context.Background(), ctl, nil)
	var werr *wire.Error
	if errors.As(err, &werr) {
		return wire.Result{Error: werr}
	}
	f.must(err)
	return res
}
