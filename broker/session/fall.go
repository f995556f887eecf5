package session

import (
	"leaseguard.internal/broker/lease"
	"leaseguard.internal/internal/peer"
)

// settle keeps the lease that an event left. It answers whether trust has ended
// with it: the session was VERIFIED, and now it is nothing. A new cycle alone
// doesn't end it, since an operator who renews trust keeps what runs under it;
// but a cycle that comes to nothing does. The caller holds the lock.
func (s *Session) settle(next lease.Lease) (fell bool) {
	s.lease = next
	switch next.State() {
	case lease.Verified:
		s.trusted = true
	case lease.Unverified:
		fell, s.trusted = s.trusted, false
	case lease.Pending: // a new cycle decides
	}
	return fell
}

// told says that trust has ended, once the lock is free.
func (s *Session) told(fell bool, cause lease.Cause) {
	if fell && s.Fell != nil {
		s.Fell(s, cause)
	}
}

// Calling notes that a process waits for the answer to a call of the host's, or
// has it and hasn't ended. Until done it is not ended with the session's tree: a
// host may run a tool whose gate was killed.
func (s *Session) Calling(p *peer.Process) (done func()) {
	id := p.ID()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.callers == nil {
		s.callers = map[peer.ID]int{}
	}
	s.callers[id]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.callers[id]--; s.callers[id] <= 0 {
			delete(s.callers, id)
		}
	}
}

// Waits says whether the process waits for an answer to a call of the host's, or
// has it and hasn't ended.
func (s *Session) Waits(p *peer.Process) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.callers[p.ID()] > 0
}

// Recovers says whether the process is the pinned recovery tool.
func (s *Session) Recovers(p *peer.Process) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.recovery.pinned.ID().Same(p.ID())
}
