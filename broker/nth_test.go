//go:build failpoint

package broker

import (
	"fmt"
	"slices"
	"testing"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/broker/store"
	"leaseguard.internal/broker/token"
	"leaseguard.internal/internal/agenttest"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// TestNthFailure fails the first step that store, audit or broker take, then the
// second, and so on until the story of a session's life gets through without
// meeting the failure. Each time the broker grants nothing that isn't on disk,
// and nothing at all once its store or audit has failed; and what it leaves is
// whole.
func TestNthFailure(t *testing.T) {
	a, err := agenttest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Kill()
	n := 0
	for met := true; met && !t.Failed(); {
		n++
		t.Run(fmt.Sprint("step ", n), func(t *testing.T) { met = failNth(t, a, n) })
	}
	if n < 30 {
		t.Errorf("after %d steps the story was through: it met no store or audit", n-1)
	}
}

// failNth tells the story with the n-th step failing, always by the same process;
// it answers whether that step was met.
func failNth(t *testing.T, a *agenttest.Agent, n int) bool {
	s := &story{machine: newMachine(t, nil), t: t, agent: a}
	defer s.close()
	s.disk.arm(n, false)
	s.run()
	struck := s.disk.struck()
	s.disk.reset()
	s.mustStart(t)
	s.judge(struck)
	return struck != ""
}

// story is one session's life, and what was granted in it.
type story struct {
	*machine
	t       *testing.T
	agent   *agenttest.Agent
	session string
	headed  bool     // the store has ever taken a head of the audit
	tokens  []string // all that were handed out
	used    []string // those that were accepted
	granted []string // kind and cycle of what was granted
	passed  []string // changes that passed, by their tool
}

// run is the story with a broker of its own. One that doesn't start grants
// nothing.
func (s *story) run() {
	if err := s.start(); err != nil {
		s.end = nil
		return
	}
	s.tell()
	_, s.headed, _ = s.store.Head()
	_ = s.end() // after a failure it complains
}

func (s *story) tell() {
	got, err := s.agent.Register(s.opt.Paths, wire.Register{Runtime: "exec", Dir: "/", Command: "story"})
	if err != nil {
		return
	}
	s.session = got.ID
	s.eventually(s.t, "the session is launched", func() bool { return s.sessions.ByID(s.session).Launched() })
	s.change("Read")
	s.raise(wire.VerbApprove, "")
	s.change("Write")
	s.raise(wire.VerbVerify, "")
	s.present(1)
	s.change("Edit")
	s.raise(wire.VerbRenew, "")
	if _, ok := s.operator(wire.Control{Verb: wire.VerbRevoke, All: true}); !ok {
		s.t.Error("a revocation was refused")
	}
	if l := s.sessions.ByID(s.session).Lease(s.clock.Now()); l.State() != lease.Unverified {
		s.t.Errorf("after a revocation it is %s", l.State())
	}
	s.raise(wire.VerbVerify, "")
	s.present(1)
	s.change("MultiEdit")
	s.present(2) // once more, which takes the lease
	s.change("NotebookEdit")
}

// present promotes by the newest tokens.
func (s *story) present(n int) {
	for _, text := range s.tokens[max(len(s.tokens)-n, 0):] {
		if s.raise(wire.VerbPromote, text) {
			s.used = append(s.used, text)
		}
	}
}

// raise asks for a grant.
func (s *story) raise(verb wire.Verb, text string) bool {
	s.t.Helper()
	failed := s.store.Err() != nil || s.audit.Err() != nil
	r, ok := s.operator(wire.Control{Verb: verb, Session: s.session, Token: text})
	switch {
	case !ok:
		// What was refused is no grant in the broker's memory either.
		last := verb == wire.VerbApprove || len(s.tokens) > 0 && text == s.tokens[len(s.tokens)-1]
		if l := s.sessions.ByID(s.session).Lease(s.clock.Now()); last && l.State() == lease.Verified {
			s.t.Errorf("%s was refused, and the lease is VERIFIED; %s had failed", verb, s.disk.struck())
		}
		return false
	case failed && verb != wire.VerbVerify: // a token alone is no authority
		s.t.Errorf("%s was granted after %s failed", verb, s.disk.struck())
	case slices.Contains(s.used, text):
		s.t.Errorf("a token was accepted twice, beside the failure of %s", s.disk.struck())
	}
	if verb == wire.VerbVerify {
		s.tokens = append(s.tokens, r.Grant.Token)
		return true
	}
	kind := map[wire.Verb]string{wire.VerbApprove: "promote", wire.VerbPromote: "promote", wire.VerbRenew: "renew"}[verb]
	s.granted = append(s.granted, fmt.Sprint(kind, r.Grant.Cycle))
	return true
}

// change asks the gate's question for a tool, each but once.
func (s *story) change(tool string) {
	s.t.Helper()
	failed := s.audit.Err() != nil
	code, err := s.event(s.agent, "PreToolUse", tool)
	if err != nil || code != "" || tool == "Read" {
		return
	}
	if failed {
		s.t.Errorf("%s passed after %s failed", tool, s.disk.struck())
	}
	s.passed = append(s.passed, tool)
}

// judge holds what was granted against what a new broker finds on the disk.
func (s *story) judge(struck string) {
	if s.headed { // else the alarm is right that nothing is known
		s.whole(s.t)
	}
	var granted, passed []string
	err := audit.Read(s.opt.Paths.AuditDir, func(r audit.Record, _ []byte) error {
		if r.Event == audit.EventLease && r.State == lease.Verified.String() {
			granted = append(granted, fmt.Sprint(r.Code, r.Cycle))
		}
		if r.Event == audit.EventVerdict && r.Verdict == verdict.Pass.String() {
			passed = append(passed, r.Tool)
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	missing := func(want, have []string) []string {
		return slices.DeleteFunc(slices.Clone(want), func(x string) bool { return slices.Contains(have, x) })
	}
	if lost := append(missing(s.granted, granted), missing(s.passed, passed)...); len(lost) > 0 {
		s.t.Errorf("%s failed, and no record tells of %q", struck, lost)
	}
	if struck == "" && (len(s.granted) != 4 || len(s.passed) != 3) {
		s.t.Errorf("without a failure: %q, %q", s.granted, s.passed)
	}
	for _, text := range s.tokens {
		tok, err := token.Parse(text)
		if err != nil {
			s.t.Fatal(err)
		}
		row, found, err := s.store.LookupToken(tok.Hash())
		if err != nil || slices.Contains(s.used, text) && row.State != store.Consumed {
			s.t.Errorf("%s failed, and a token that was used is %q (%t, %v)", struck, row.State, found, err)
		}
		if _, ok := s.operator(wire.Control{Verb: wire.VerbPromote, Session: s.session, Token: text}); ok {
			s.t.Errorf("%s failed, and a token of the broker before is accepted", struck)
		}
	}
	for _, x := range s.sessions.All() {
		if l := x.Lease(s.clock.Now()); l.State() != lease.Unverified {
			s.t.Errorf("%s failed, and session %s is %s after a restart", struck, x.ID, l.State())
		}
	}
}
