package session

import (
	"testing"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/internal/clock"
)

// A session whose host has taken its gate down has no authority, and hears
// nothing but a greeting.
func TestPart(t *testing.T) {
	s := &Session{Generation: 1}
	s.Start(true, true)
	s.MarkLaunched(1)
	if !s.Lease(1).GateSeen() || s.Waiting() {
		t.Fatal("its gate was seen, and it waits for nothing")
	}
	if l := s.Part(5); l.GateSeen() || l.Cause() != lease.Parted || l.Lowerings() != 1 || !s.Waiting() {
		t.Fatalf("parted with %+v", l)
	}
	s.SeeGate(false, 6)
	if s.Lease(6).GateSeen() || !s.Waiting() || s.Unseen(clock.Instant(9)) != 4 {
		t.Errorf("another word ends the wait: %+v, unseen for %v", s.Lease(6), s.Unseen(9))
	}
	s.SeeGate(true, 7)
	if !s.Lease(7).GateSeen() || s.Waiting() || s.Unseen(9) != 0 {
		t.Errorf("a greeting doesn't: %+v, unseen for %v", s.Lease(7), s.Unseen(9))
	}
	s.Part(8)
	s.Restored = true
	if s.Unseen(10) != 2 {
		t.Errorf("of an earlier broker, it is unseen for %v", s.Unseen(10))
	}
}
