package session

import (
	"fmt"
	"slices"

	"leaseguard.internal/internal/peer"
)

// Add registers a session whose anchor lives. A session of the same id makes
// way if its anchor is dead and its generation lower. From here on Watch tells
// of the anchor's end; the anchor stays open until that was told, or Remove.
func (r *Registry) Add(s *Session) error {
	if !s.Anchor.Alive() {
		return fmt.Errorf("registering session %q: anchor %d: %w", s.ID, s.Anchor.PID(), peer.ErrGone)
	}
	above, err := ancestors(s.Anchor)
	if err != nil {
		return fmt.Errorf("registering session %q: %w", s.ID, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.admit(s, above); err != nil {
		return fmt.Errorf("registering session %q: %w", s.ID, err)
	}
	if err := r.watch.add(s); err != nil {
		return fmt.Errorf("registering session %q: %w", s.ID, err)
	}
	if old := r.byID[s.ID]; old != nil { // it stays watched until its end is told
		r.drop(old)
	}
	e := &entry{session: s, above: above}
	r.byID[s.ID], r.byAnchor[s.Anchor.ID()], r.byPID[s.Anchor.PID()] = e, e, e
	r.users[s.User()]++
	for _, up := range above {
		r.above[up]++
	}
	return nil
}

// drop takes an entry out of all but byID. The caller holds the lock.
func (r *Registry) drop(e *entry) {
	s := e.session
	delete(r.byAnchor, s.Anchor.ID())
	r.unfence(s)
	if r.byPID[s.Anchor.PID()] == e { // the number may be a newer anchor's by now
		delete(r.byPID, s.Anchor.PID())
	}
	less(r.users, s.User())
	for _, up := range e.above {
		less(r.above, up)
	}
}

// less counts one down.
func less[K comparable](counts map[K]int, key K) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}

// admit looks for a reason to refuse. The caller holds the lock. Sessions are
// only gone through when one of them is a reason.
func (r *Registry) admit(s *Session, above []peer.ID) error {
	if old := r.byID[s.ID]; old != nil {
		if old.session.Anchor.Alive() {
			return fmt.Errorf("anchor %d of that id lives: %w", old.session.Anchor.PID(), ErrTaken)
		}
		if old.session.Generation >= s.Generation {
			return fmt.Errorf("generation %d doesn't follow generation %d: %w", s.Generation, old.session.Generation, ErrTaken)
		}
	}
	id := s.Anchor.ID()
	if other := r.byAnchor[id]; other != nil {
		return fmt.Errorf("process %d is the anchor of session %q: %w", s.Anchor.PID(), other.session.ID, ErrTaken)
	}
	for _, up := range above {
		if other := r.byAnchor[up]; other != nil {
			return fmt.Errorf("process %d is inside session %q: %w; launch from outside of it", s.Anchor.PID(), other.session.ID, ErrNested)
		}
	}
	if below := r.below(id); below != nil {
		return fmt.Errorf("process %d has session %q below it, whose orphans would become this one's: %w; launch from another shell",
			s.Anchor.PID(), below.ID, ErrNested)
	}
	if n := r.living(s); n >= r.perUID {
		return fmt.Errorf("uid %d has %d sessions, those of its subordinate uids included: %w; end one, or raise limits.sessions_per_uid", s.User(), n, ErrLimit)
	}
	return nil
}

// living counts the user's sessions beside s. One that has ended takes no room
// even before that was told, but that is only looked at when the room is used up.
func (r *Registry) living(s *Session) int {
	if n := r.users[s.User()]; n < r.perUID {
		return n
	}
	n := 0
	for _, other := range r.byID {
		if other.session.User() == s.User() && other.session.ID != s.ID && other.session.Anchor.Alive() {
			n++
		}
	}
	return n
}

// below finds a session whose live anchor the process stands above. What was
// above it at its start is a list of all that ever can be; only a hit is worth a
// walk.
func (r *Registry) below(id peer.ID) *Session {
	if r.above[id] == 0 {
		return nil
	}
	for _, e := range r.byID {
		if !slices.Contains(e.above, id) || !e.session.Anchor.Alive() {
			continue
		}
		if now, err := ancestors(e.session.Anchor); err != nil || slices.Contains(now, id) {
			return e.session
		}
	}
	return nil
}

// ancestors returns what stands above the process, without it.
func ancestors(p *peer.Process) ([]peer.ID, error) {
	var ids []peer.ID
	err := peer.Ancestors(p, func(q *peer.Process) (bool, error) {
		if q != p {
			ids = append(ids, q.ID())
		}
		return false, nil
	})
	return ids, err
}

// Remove forgets the session, of which Watch tells nothing any more. A later
// generation under the same id stays.
func (r *Registry) Remove(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watch.drop(s)
	if e := r.byID[s.ID]; e != nil && e.session == s {
		delete(r.byID, s.ID)
		r.drop(e)
	}
}
