package session

import (
	"errors"
	"fmt"

	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/tree"
)

// Fence is a cgroup of one session alone. The zero Fence is none: then lineage is
// all that tells who is inside.
type Fence struct {
	Cgroup tree.Cgroup
	// Boundary says that the session's user can't move a process in or out: then
	// lineage and cgroup must both fit. Elsewhere it only helps to find what a
	// session has left running.
	Boundary bool
}

// ErrFence says that lineage and cgroup of a process don't agree. It has left its
// session's cgroup, or slipped out of its tree, so that it is neither inside a
// session nor proved to be outside of all.
var ErrFence = errors.New("its ancestors and its cgroup don't belong to the same session")

func (f Fence) name() string {
	switch {
	case f.Boundary:
		return "scope"
	case f.Cgroup.ID != 0:
		return "user-scope"
	}
	return "absent"
}

// Fence returns the session's.
func (s *Session) Fence() Fence {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fence
}

// Enclose puts a fence around a session that has been added. No two share one.
func (r *Registry) Enclose(s *Session, f Fence) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.byCgroup[f.Cgroup.ID]; other != nil || f.Cgroup.ID == 0 {
		return fmt.Errorf("fencing session %q in cgroup %d: %w", s.ID, f.Cgroup.ID, ErrTaken)
	}
	if e := r.byAnchor[s.Anchor.ID()]; e == nil || e.session != s {
		return fmt.Errorf("fencing session %q: %w", s.ID, ErrNotRegistered)
	}
	s.mu.Lock()
	s.fence = f
	s.mu.Unlock()
	r.byCgroup[f.Cgroup.ID] = s
	return nil
}

// unfence forgets the session's cgroup. The caller holds the lock.
func (r *Registry) unfence(s *Session) {
	if f := s.Fence(); r.byCgroup[f.Cgroup.ID] == s {
		delete(r.byCgroup, f.Cgroup.ID)
	}
}

// fits holds what lineage says of p against its cgroup: found is the session by
// lineage, nil for none. Without a fence anywhere it asks nothing.
func (r *Registry) fits(p *peer.Process, found *Session) error {
	r.mu.RLock()
	some := len(r.byCgroup) > 0
	r.mu.RUnlock()
	if !some {
		return nil
	}
	id, err := p.CgroupID()
	if err != nil {
		return err
	}
	r.mu.RLock()
	in := r.byCgroup[id]
	r.mu.RUnlock()
	if in != nil && !in.Fence().Boundary {
		in = nil
	}
	if found != nil && !found.Fence().Boundary {
		found = nil
	}
	if in != found {
		return ErrFence
	}
	return nil
}
