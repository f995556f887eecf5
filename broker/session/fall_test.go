package session

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/testproc"
)

// Events of a lease whose cycles are all of one length.
var (
	hash  = lease.Hash{1}
	begun = lease.Begin{Max: lease.MaxTTL, Token: hash}
)

func promoted(cycle uint64) []lease.Event {
	return []lease.Event{begun, lease.Promote{Token: hash, Generation: 1}, lease.Promoted{Cycle: cycle}}
}

func TestFallsOfTrust(t *testing.T) {
	const start = clock.Instant(time.Hour)
	expired := start.Add(lease.MaxTTL)
	tests := []struct {
		name   string
		events []lease.Event
		at     map[int]clock.Instant // of an event, instead of start
		want   []lease.Cause
	}{
		{name: "never verified", events: []lease.Event{begun, lease.Lower{Cause: lease.Revoked}}},
		{name: "revoked", events: append(promoted(1), lease.Lower{Cause: lease.Revoked}, lease.Lower{Cause: lease.Revoked}), want: []lease.Cause{lease.Revoked}},
		{name: "observed", events: append(promoted(1), lease.Lower{Cause: lease.Observed}), want: []lease.Cause{lease.Observed}},
		{name: "alarm", events: append(promoted(1), lease.Lower{Cause: lease.Alarmed}), want: []lease.Cause{lease.Alarmed}},
		{name: "replayed token", events: append(promoted(1), lease.Replay{}), want: []lease.Cause{lease.Replayed}},
		{name: "expired, seen by the sweeper", events: append(promoted(1), lease.Tick{}), at: map[int]clock.Instant{3: expired}, want: []lease.Cause{lease.Expired}},
		{name: "expired, seen on the way of another event", events: append(promoted(1), lease.GateSeen{}), at: map[int]clock.Instant{3: expired}, want: []lease.Cause{lease.Expired}},
		{name: "a new begin is none", events: append(promoted(1), begun)},
		{name: "a renewal of trust is none", events: append(promoted(1), promoted(2)...)},
		{name: "a new begin after the end is none", events: append(promoted(1), begun), at: map[int]clock.Instant{3: expired}},
		{name: "a begin that fails after the end", events: append(promoted(1), lease.Begin{Max: lease.MaxTTL}), at: map[int]clock.Instant{3: expired}, want: []lease.Cause{lease.Expired}},
		{name: "a begin that comes to nothing", events: append(promoted(1), begun, lease.Tick{}), at: map[int]clock.Instant{4: start.Add(lease.TokenLife)}, want: []lease.Cause{lease.TokenLapsed}},
		{name: "revoked in a new cycle", events: append(promoted(1), begun, lease.Lower{Cause: lease.Revoked}), want: []lease.Cause{lease.Revoked}},
		{name: "a promotion that fails", events: append(promoted(1), begun, lease.Promote{Token: hash, Generation: 1}, lease.PromoteFailed{Cycle: 2}), want: []lease.Cause{lease.PromotionFailed}},
		{name: "twice", events: append(append(promoted(1), lease.Lower{Cause: lease.Revoked}), append(promoted(2), lease.Lower{Cause: lease.Observed})...), want: []lease.Cause{lease.Revoked, lease.Observed}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []lease.Cause
			s := &Session{ID: "s", Generation: 1}
			s.Fell = func(of *Session, cause lease.Cause) {
				if of.Lease(start).State() == lease.Verified { // also: the lock is free
					t.Error("it is told before the lease is down")
				}
				got = append(got, cause)
			}
			s.Start(true, true)
			for i, ev := range tt.events {
				now := start
				if at, other := tt.at[i]; other {
					now = at
				}
				_, _, _ = s.Apply(ev, now)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("falls (-want +got):\n%s", d)
			}
		})
	}
}

func TestEndOfAnchorIsAFall(t *testing.T) {
	falls := 0
	s := &Session{ID: "s", Generation: 1, Fell: func(*Session, lease.Cause) { falls++ }}
	s.Start(true, true)
	for _, ev := range promoted(1) {
		_, _, _ = s.Apply(ev, 1)
	}
	if s.End(2); falls != 1 {
		t.Errorf("told %d times, want once", falls)
	}
	if s.End(3); falls != 1 {
		t.Error("told again")
	}
}

func TestWhoStays(t *testing.T) {
	zoo := testproc.New(t)
	tool, gate, stranger := open(t, zoo.Start()), open(t, zoo.Start()), open(t, zoo.Start())
	s := &Session{ID: "s", Generation: 1}
	if s.Waits(gate) || s.Waits(nil) || s.Recovers(tool) || s.Recovers(nil) {
		t.Error("it stays before it was seen")
	}
	if err := s.Pin(tool); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.recovery.pinned.Close() }()
	one, two := s.Calling(gate, nil), s.Calling(gate, make([]Step, 2))
	one()
	for p, want := range map[*peer.Process][2]bool{tool: {true, false}, gate: {false, true}, stranger: {}} {
		if s.Recovers(p) != want[0] || s.Waits(p) != want[1] {
			t.Errorf("process %d recovers %v, waits %v; want %v", p.PID(), s.Recovers(p), s.Waits(p), want)
		}
	}
	if two(); s.Waits(gate) || len(s.callers) != 0 {
		t.Error("a call that is over still counts")
	}
}

// A hook stays known after its call, for as long as it may have to pass the answer
// on; of many, the last.
func TestHooksStay(t *testing.T) {
	zoo := testproc.New(t)
	gate, shell, hook, anchor := open(t, zoo.Start()), open(t, zoo.Start()), open(t, zoo.Start()), open(t, zoo.Start())
	step := func(p *peer.Process) Step { return Step{PID: p.PID(), id: p.ID()} }
	s := &Session{ID: "s", Generation: 1}
	s.Calling(gate, []Step{step(gate), step(anchor)})()
	if s.Hooks(gate) || s.Hooks(anchor) || s.Hooks(nil) {
		t.Error("a gate that the host started itself has a hook")
	}
	path := []Step{step(gate), step(shell), step(hook), step(anchor)}
	for range 2 * maxHooks {
		s.Calling(gate, path)()
	}
	if !s.Hooks(hook) || s.Hooks(gate) || s.Hooks(shell) || s.Hooks(anchor) || s.Hooks(nil) || len(s.hooks) != 1 {
		t.Errorf("hooks are %v", s.hooks)
	}
	for range maxHooks - 1 {
		s.hooks = append(s.hooks, anchor.ID())
	}
	s.Calling(gate, []Step{step(gate), step(shell), step(anchor)})()
	if len(s.hooks) != maxHooks || !s.Hooks(shell) || s.Hooks(hook) {
		t.Errorf("%d hooks are kept; the newest %v, the oldest %v", len(s.hooks), s.Hooks(shell), s.Hooks(hook))
	}
}
