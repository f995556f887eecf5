package session

import (
	"slices"

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
// host may run a tool whose gate was killed. path leads up to the anchor; if there
// is more than a step, the host has started the last of them as its hook.
func (s *Session) Calling(p *peer.Process, path []Step) (done func()) {
	id := p.ID()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.callers == nil {
		s.callers = map[peer.ID]int{}
	}
	s.callers[id]++
	if n := len(path); n > 2 && !slices.Contains(s.hooks, path[n-2].id) {
		s.hooks = append(s.hooks[max(0, len(s.hooks)+1-maxHooks):], path[n-2].id)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.callers[id]--; s.callers[id] <= 0 {
			delete(s.callers, id)
		}
	}
}

// maxHooks is how many of the last hooks are known.
const maxHooks = 64

// Hooks says whether the process is one that the host started to have a call
// judged. It passes the gate's answer on after its call is over, and starts what
// denies if there is none.
func (s *Session) Hooks(p *peer.Process) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.hooks, p.ID().Same)
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
