package session

import (
	"time"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/internal/clock"
)

// This file keeps what is known of the session's gate: whether the runtime has
// been exec'd, and whether its host has been heard since.

// MarkLaunched notes that the runtime has been exec'd.
func (s *Session) MarkLaunched(now clock.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.launched, s.since = true, now
}

// Unseen is how long the runtime has run without its gate being heard.
func (s *Session) Unseen(now clock.Instant) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.launched || s.Restored && !s.waiting || s.lease.GateSeen() {
		return 0
	}
	return now.Sub(s.since)
}

// Part notes that the host has taken down what asks the gate, as some do between
// two conversations: until it greets, the session has no authority and gets none.
func (s *Session) Part(now clock.Instant) lease.Lease {
	s.mu.Lock()
	next, _, _ := lease.Apply(s.lease, lease.GateLost{}, now)
	s.waiting, s.since = true, now
	fell := s.settle(next)
	s.mu.Unlock()
	s.told(fell, next.Cause())
	return next
}

// SeeGate notes that the host's gate was heard. While the session waits for a
// greeting, nothing else counts: it may come from what is being taken down.
func (s *Session) SeeGate(greets bool, now clock.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting && !greets {
		return
	}
	s.waiting = false
	s.lease, _, _ = lease.Apply(s.lease, lease.GateSeen{}, now)
}

// Waiting says whether the host has to greet before anything is granted again.
func (s *Session) Waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

// HeardProving notes that the installed gate asked before exec; Proved says
// whether it did.
func (s *Session) HeardProving() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proving = true
}

// Proved says whether the gate was heard before exec.
func (s *Session) Proved() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proving && !s.launched
}

// Launched says whether the runtime has been exec'd.
func (s *Session) Launched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.launched
}
