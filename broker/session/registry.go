package session

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"leaseguard.internal/internal/peer"
)

// What Add and Find refuse with.
var (
	// ErrNotRegistered: it is proved, up to the top, that no anchor is among the
	// process and its ancestors. Any other error of Find proves nothing.
	ErrNotRegistered = errors.New("not inside a registered session")
	// ErrNested: the process is inside a session, or has one below it.
	ErrNested = errors.New("nested session")
	// ErrTaken: the session id or the process is registered already.
	ErrTaken = errors.New("registered already")
	// ErrLimit: the user has as many sessions as one may have.
	ErrLimit = errors.New("limit of sessions reached")
)

// Registry finds the session of a process. It holds no authority and takes no
// lock while a process is looked at, so a lookup never waits for a slow one.
type Registry struct {
	perUID int
	watch  watcher

	mu       sync.RWMutex
	byID     map[string]*entry
	byAnchor map[peer.ID]*entry
}

type entry struct {
	session *Session
	above   []peer.ID // the anchor's ancestors when it was added
}

// Step is one process on the way from a caller up to its anchor.
type Step struct {
	PID int
	id  peer.ID
}

// Exe returns the path of the program that the process of this step runs. It
// fails once that process has ended.
func (s Step) Exe() (string, error) {
	p, err := peer.Open(s.PID)
	if err != nil {
		return "", err
	}
	defer func() { _ = p.Close() }()
	if !p.ID().Same(s.id) {
		return "", fmt.Errorf("reading the program of process %d: %w", s.PID, peer.ErrGone)
	}
	return p.Exe()
}

// NewRegistry returns an empty registry with room for perUID sessions of a user.
func NewRegistry(perUID int) *Registry {
	return &Registry{
		perUID:   perUID,
		watch:    newWatcher(),
		byID:     map[string]*entry{},
		byAnchor: map[peer.ID]*entry{},
	}
}

// Add registers a session whose anchor lives. A session of the same id makes
// way if its anchor is dead and its generation lower. From here on Watch tells
// of the anchor's end; the anchor's Process stays the session's own.
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
		delete(r.byAnchor, old.session.Anchor.ID())
	}
	e := &entry{session: s, above: above}
	r.byID[s.ID], r.byAnchor[s.Anchor.ID()] = e, e
	return nil
}

// admit looks for a reason to refuse. The caller holds the lock.
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
	count := 0
	for _, other := range r.byID {
		if other.session.UID == s.UID && other.session.ID != s.ID && other.session.Anchor.Alive() {
			count++
		}
		if other.isBelow(id) {
			return fmt.Errorf("process %d has session %q below it, whose orphans would become this one's: %w; launch from another shell",
				s.Anchor.PID(), other.session.ID, ErrNested)
		}
	}
	if count >= r.perUID {
		return fmt.Errorf("uid %d has %d sessions: %w; end one, or raise limits.sessions_per_uid", s.UID, count, ErrLimit)
	}
	return nil
}

// isBelow says whether the process stands above the entry's live anchor. What
// was above it at its start is a list of all that ever can be; only a hit is
// worth a walk.
func (e *entry) isBelow(id peer.ID) bool {
	if !slices.Contains(e.above, id) || !e.session.Anchor.Alive() {
		return false
	}
	now, err := ancestors(e.session.Anchor)
	return err != nil || slices.Contains(now, id)
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

// Find returns the session whose anchor is the nearest among p and its
// ancestors, and the steps from p up to that anchor: the last one is the anchor
// itself. An error that isn't ErrNotRegistered neither places p inside a session
// nor outside: the lineage could not be proved, or p or the anchor has ended.
func (r *Registry) Find(p *peer.Process) (*Session, []Step, error) {
	var found *Session
	path := make([]Step, 0, 8)
	err := peer.Ancestors(p, func(q *peer.Process) (bool, error) {
		path = append(path, Step{PID: q.PID(), id: q.ID()})
		found = r.anchored(q.ID())
		return found != nil, nil
	})
	switch {
	case err != nil:
	case found != nil && !found.Anchor.Alive():
		err = fmt.Errorf("anchor %d: %w", found.Anchor.PID(), peer.ErrGone)
	case !p.Alive():
		err = peer.ErrGone
	case found == nil:
		err = ErrNotRegistered
	default:
		return found, path, nil
	}
	return nil, nil, fmt.Errorf("finding the session of process %d: %w", p.PID(), err)
}

// anchored returns the session of which the process is the anchor.
func (r *Registry) anchored(id peer.ID) *Session {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if e := r.byAnchor[id]; e != nil && id.Same(e.session.Anchor.ID()) {
		return e.session
	}
	return nil
}

// ByID returns the session with exactly that id, or nil.
func (r *Registry) ByID(id string) *Session {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if e := r.byID[id]; e != nil {
		return e.session
	}
	return nil
}

// ByPrefix returns the sessions whose ids begin with prefix, by id: more than
// one means that prefix names none. An empty prefix fits nothing.
func (r *Registry) ByPrefix(prefix string) []*Session {
	if prefix == "" {
		return nil
	}
	return slices.DeleteFunc(r.All(), func(s *Session) bool { return !strings.HasPrefix(s.ID, prefix) })
}

// All returns the sessions, by id.
func (r *Registry) All() []*Session {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make([]*Session, 0, len(r.byID))
	for _, e := range r.byID {
		all = append(all, e.session)
	}
	slices.SortFunc(all, func(a, b *Session) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// Remove forgets the session, of which Watch tells nothing any more. A later
// generation under the same id stays.
func (r *Registry) Remove(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watch.drop(s)
	if e := r.byID[s.ID]; e != nil && e.session == s {
		delete(r.byID, s.ID)
	}
	if e := r.byAnchor[s.Anchor.ID()]; e != nil && e.session == s {
		delete(r.byAnchor, s.Anchor.ID())
	}
}

// Len returns how many sessions there are.
func (r *Registry) Len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.byID)
}
