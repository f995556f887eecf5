//go:build failpoint

package broker

import (
	"context"
	"flag"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/broker/store"
	"leaseguard.internal/broker/token"
	"leaseguard.internal/internal/agenttest"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/wire"
)

// TestModel holds the broker against the model, through crashes at its commit
// points, failed writes, restarts, restored snapshots, suspends and ended
// anchors. P1 to P8 are the promises of docs/testing.md.
func TestModel(t *testing.T) {
	size(t, "checks", "10")
	size(t, "steps", "50")
	var spare []*agenttest.Agent
	defer func() {
		for _, a := range spare {
			a.Kill()
		}
	}()
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t, spare)
		m.mustStart(t)
		defer func() { spare = m.close() }()
		m.Register(t)
		t.Repeat(map[string]func(*rapid.T){
			"register": m.Register, "gate": m.Gate, "verify": m.Verify, "promote": m.Promote, "promote again": m.Promote,
			"approve": m.Approve, "approve again": m.Approve, "renew": m.Renew, "call": m.Call, "call again": m.Call, "revoke": m.Revoke,
			"observe": m.Observe, "time": m.Time, "wall": m.Wall, "outsider": m.Outsider, "exit": m.Exit, "resume": m.Resume,
			"restart": m.Restart, "crash": m.Crash, "fail": m.Fail, "save": m.Save, "restore": m.Restore, "": m.check,
		})
	})
}

// size sets one of rapid's sizes, unless the command line did.
func size(t *testing.T, name, value string) {
	t.Helper()
	f := flag.Lookup("rapid." + name)
	if f.Value.String() != f.DefValue {
		return
	}
	if err := flag.Set(f.Name, value); err != nil {
		t.Fatal(err)
	}
}

const maxModelled = 3

// pick chooses a session.
func (m *machine) pick(t *rapid.T) (string, *modelled) {
	if len(m.model.sessions) == 0 {
		m.Register(t)
	}
	ids := m.model.ids()
	if len(ids) == 0 {
		t.Skip("no session")
	}
	id := rapid.SampledFrom(ids).Draw(t, "session")
	return id, m.model.sessions[id]
}

// heard is false if the broker died over the last request: then nobody has an
// answer, whatever it said.
func (m *machine) heard() bool { return m.disk.struck() == "" }

func (m *machine) now() clock.Instant { return m.clock.Now() }

func (m *machine) Register(t *rapid.T) {
	if len(m.model.sessions) < maxModelled {
		m.launch(t, "")
	}
}

// Resume launches the next generation of an ended session.
func (m *machine) Resume(t *rapid.T) {
	if len(m.model.ended) == 0 || len(m.model.sessions) >= maxModelled {
		return
	}
	m.launch(t, rapid.SampledFrom(m.model.endedIDs()).Draw(t, "ended"))
}

func (m *machine) launch(t *rapid.T, resume string) {
	a := m.agent(t)
	s, err := a.Register(m.opt.Paths, wire.Register{Runtime: "exec", Dir: "/", Command: "model", Resume: resume})
	if err == nil {
		// The rest is done after the launcher has hung up.
		m.eventually(t, "the session is launched", func() bool { return storedSession(m.Broker, s.ID).Launched })
	}
	switch {
	case !m.heard():
		a.Kill() // it may be registered or not
		return
	case err != nil:
		t.Fatalf("registering: %v", err)
	case resume != "" && (s.ID != resume || s.Generation != m.model.ended[resume]+1):
		t.Fatalf("P7: %s/%d was resumed after %s/%d", s.ID, s.Generation, resume, m.model.ended[resume])
	}
	m.model.launched(s.ID, &modelled{agent: a, generation: s.Generation})
}

func (m *machine) Gate(t *rapid.T) {
	_, s := m.pick(t)
	code, err := m.event(s.agent, "PreToolUse", "Read")
	if !m.heard() {
		return
	}
	if err != nil || code != "" {
		t.Fatalf("a read: %q, %v", code, err)
	}
	s.seen = true
}

// Call is a change: it passes if, and only if, the lease is VERIFIED.
func (m *machine) Call(t *rapid.T) {
	_, s := m.pick(t)
	verified := s.at(m.now()).state == lease.Verified
	code, err := m.event(s.agent, "PreToolUse", "Write")
	if !m.heard() {
		return
	}
	if err != nil || verified != (code == "") || !verified && !strings.HasPrefix(code, "lease_") {
		t.Fatalf("P5, P6: a change with VERIFIED=%t: %q, %v", verified, code, err)
	}
	s.seen = true
}

func (m *machine) Observe(t *rapid.T) {
	_, s := m.pick(t)
	if _, err := m.event(s.agent, "PreCompact", ""); !m.heard() {
		return
	} else if err != nil {
		t.Fatal(err)
	}
	s.lower()
	s.seen = true
}

// Outsider is this process, which is below no anchor.
func (m *machine) Outsider(t *rapid.T) {
	a := m.agent(t)
	m.spare = append(m.spare, a)
	for _, tool := range []string{"Read", "Write"} {
		if code, err := m.event(a, "PreToolUse", tool); m.heard() && (err != nil || code != "not_registered") {
			t.Fatalf("P8: %s of a process in no session: %q, %v", tool, code, err)
		}
	}
}

// drawTTL is mostly one that can be had.
func drawTTL(t *rapid.T) (time.Duration, *int64) {
	s := rapid.SampledFrom([]int64{300, 300, 1, 60, 299, 301, 0, -1}).Draw(t, "ttl")
	return time.Duration(s) * time.Second, &s
}

func (m *machine) Verify(t *rapid.T) {
	id, _ := m.pick(t)
	ttl, seconds := drawTTL(t)
	r, ok := m.operator(wire.Control{Verb: wire.VerbVerify, Session: id, TTLSeconds: seconds})
	if !m.heard() {
		return
	}
	if ok != ttlFits(ttl) {
		t.Fatalf("begin with a TTL of %s: %t", ttl, ok)
	}
	if ok {
		m.model.verify(id, r.Grant.Token, ttl, m.now())
	}
}

// Promote shows any token that was ever minted, to any session.
func (m *machine) Promote(t *rapid.T) {
	if len(m.model.minted) == 0 {
		m.Verify(t)
	}
	if len(m.model.minted) == 0 {
		return
	}
	id, s := m.pick(t)
	text := rapid.SampledFrom(m.model.minted).Draw(t, "token")
	if s.token != "" && rapid.Bool().Draw(t, "its own") {
		text = s.token
	}
	m.raising.Store(&id)
	_, ok := m.operator(wire.Control{Verb: wire.VerbPromote, Session: id, Token: text})
	m.raising.Store(nil)
	if !m.heard() {
		return
	}
	before := m.model.used[text]
	want := m.model.promote(id, text, m.now())
	if ok != want || ok && before {
		t.Fatalf("P1: a token (used before: %t) was accepted: %t, want %t", before, ok, want)
	}
	if ok {
		m.durable(t, id, text)
	}
}

// durable is P2 after the fact: the token's consumption and the record of the
// grant are on disk when the answer is.
func (m *machine) durable(t *rapid.T, id, text string) {
	tok, err := token.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	row, found, err := m.store.LookupToken(tok.Hash())
	if err != nil || !found || row.State != store.Consumed {
		t.Fatalf("P2: promoted by a token that is %q in the store (%v)", row.State, err)
	}
	recorded := false
	err = audit.Read(m.opt.Paths.AuditDir, func(r audit.Record, _ []byte) error {
		recorded = recorded || r.Code == "promote" && r.Session == id && r.Cycle == row.Cycle && r.Epoch == m.epoch
		return nil
	})
	if err != nil || !recorded {
		t.Fatalf("P2: promoted without a record (%v)", err)
	}
}

func (m *machine) Approve(t *rapid.T) {
	id, s := m.pick(t)
	ttl, seconds := drawTTL(t)
	want := s.seen && ttlFits(ttl)
	if s.state != lease.Verified { // else it is VERIFIED until it is begun anew
		m.raising.Store(&id)
	}
	_, ok := m.operator(wire.Control{Verb: wire.VerbApprove, Session: id, TTLSeconds: seconds})
	m.raising.Store(nil)
	if !m.heard() {
		return
	}
	if ok != want {
		t.Fatalf("approving for %s, gate seen %t: %t", ttl, s.seen, ok)
	}
	if ok {
		s.ttl = ttl
		s.grant(m.now())
	}
}

func (m *machine) Renew(t *rapid.T) {
	id, s := m.pick(t)
	want := s.at(m.now()).state == lease.Verified
	_, ok := m.operator(wire.Control{Verb: wire.VerbRenew, Session: id})
	if !m.heard() {
		return
	}
	if ok != want {
		t.Fatalf("renewing with VERIFIED=%t: %t", want, ok)
	}
	if ok {
		s.grant(m.now())
	}
}

func (m *machine) Revoke(t *rapid.T) {
	id, _ := m.pick(t)
	all := rapid.Bool().Draw(t, "all")
	ctl := wire.Control{Verb: wire.VerbRevoke, Session: id}
	if all {
		ctl = wire.Control{Verb: wire.VerbRevoke, All: true}
	}
	if _, ok := m.operator(ctl); m.heard() && !ok {
		t.Fatal("P5: a revocation failed")
	} else if !m.heard() {
		return
	}
	for other, s := range m.model.sessions {
		if all || other == id {
			s.lower()
		}
	}
}

// Time passes; a suspended machine jumps.
func (m *machine) Time(t *rapid.T) {
	d := time.Duration(rapid.SampledFrom([]int64{1, 999, 1000, 59_999, 60_000, 299_999, 300_000, 3_600_000}).Draw(t, "ms")) * time.Millisecond
	if m.slept += d; m.slept > 20*time.Hour {
		return // tokens are forgotten after a day, which is another story
	}
	if d > time.Second {
		m.settle(t)
	}
	m.clock.Advance(d)
}

// settle lets pass what a broker gets done in seconds of its time, which take
// the test none: its records and their head are on disk.
func (m *machine) settle(t *rapid.T) {
	if _, err := m.audit.Append(context.Background(), audit.Record{Event: audit.EventBroker, Code: "settled"}); err != nil {
		t.Fatal(err)
	}
	m.eventually(t, "the head of all records is stored", func() bool {
		m.audit.SaveHead()
		stored, _, err := m.store.Head()
		return err == nil && stored.Seq == m.audit.Head().Seq
	})
}

// Wall steps the wall clock, which decides nothing.
func (m *machine) Wall(t *rapid.T) {
	m.clock.StepWall(time.Hour)
	defer m.clock.StepWall(-time.Hour)
	m.Call(t)
}

func (m *machine) Exit(t *rapid.T) {
	id, s := m.pick(t)
	s.agent.Kill()
	delete(m.model.sessions, id)
	m.model.ended[id] = s.generation
	m.eventually(t, "the session has ended", func() bool { return m.sessions.ByID(id) == nil })
}

func (m *machine) Restart(t *rapid.T) {
	m.restart(t, nil)
	m.reconcile(t, false)
}

// Crash kills the broker at a commit point of whatever it does next, or at rest.
func (m *machine) Crash(t *rapid.T) {
	m.pick(t) // there is one to do something to
	m.disk.arm(rapid.IntRange(1, 14).Draw(t, "points"), true)
	m.something(t)
	m.disk.atRest()
	m.restart(t, nil)
	m.reconcile(t, false)
}

// Fail fails one step of what it does next. A broker whose store or audit has
// failed once raises nothing any more.
func (m *machine) Fail(t *rapid.T) {
	id, _ := m.pick(t)
	m.disk.arm(rapid.IntRange(1, 14).Draw(t, "points"), false)
	m.something(t)
	if m.store.Err() != nil || m.audit.Err() != nil {
		if _, ok := m.operator(wire.Control{Verb: wire.VerbApprove, Session: id}); ok {
			t.Fatalf("P6: approved after %s failed", m.disk.struck())
		}
	}
	if s := m.model.sessions[id]; s != nil && m.audit.Err() != nil {
		if code, err := m.event(s.agent, "PreToolUse", "Write"); err != nil || code == "" {
			t.Fatalf("P6: a change after %s failed: %q, %v", m.disk.struck(), code, err)
		}
	}
	m.restart(t, nil)
	m.reconcile(t, false)
}

// something writes to store or audit.
func (m *machine) something(t *rapid.T) {
	rapid.SampledFrom([]func(*rapid.T){m.Register, m.Gate, m.Verify, m.Promote, m.Promote, m.Approve, m.Approve, m.Renew, m.Call, m.Revoke}).Draw(t, "what")(t)
}

func (m *machine) Save(*rapid.T) { m.saved = m.disk.rest() }

// Restore puts an older state directory in place, as a rewound machine does.
func (m *machine) Restore(t *rapid.T) {
	if m.saved == nil {
		return
	}
	m.restart(t, m.saved)
	m.reconcile(t, true)
	clear(m.model.ended) // what it knows of those is older too
}

// check holds after every step.
func (m *machine) check(t *rapid.T) {
	if what := m.broken.Load(); what != nil {
		t.Fatal(*what)
	}
	for id, want := range m.model.sessions {
		s := m.sessions.ByID(id)
		if s == nil {
			t.Fatalf("session %s is gone", id)
		}
		want.at(m.now())
		l := s.Lease(m.now())
		if l.State() != want.state || l.GateSeen() != want.seen || l.Generation() != want.generation {
			t.Fatalf("session %s: %s, seen %t, generation %d; want %s, %t, %d",
				id, l.State(), l.GateSeen(), l.Generation(), want.state, want.seen, want.generation)
		}
		left := l.Left(m.now())
		if verified := want.state == lease.Verified; verified != (left > 0) || left > want.ttl && verified || left > lease.MaxTTL {
			t.Fatalf("P3: session %s is %s and has %s left of %s", id, l.State(), left, want.ttl)
		}
	}
}
