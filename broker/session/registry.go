package session

import (
	"errors"
	"fmt"
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
	byPID    map[int]*entry // where Find looks first: a number proves nothing
	byCgroup map[uint64]*Session
	users    map[uint32]int  // sessions of each user, see Session.User
	above    map[peer.ID]int // how many sessions each process stood above at their start
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

// NewRegistry returns an empty registry with room for perUID sessions of a user.
func NewRegistry(perUID int) *Registry {
	return &Registry{
		perUID:   perUID,
		watch:    newWatcher(),
		byID:     map[string]*entry{},
		byAnchor: map[peer.ID]*entry{},
		byPID:    map[int]*entry{},
		byCgroup: map[uint64]*Session{},
		users:    map[uint32]int{},
		above:    map[peer.ID]int{},
	}
}

// SetLimit changes how many sessions a user may have. Those that there are stay.
func (r *Registry) SetLimit(perUID int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.perUID = perUID
}

// Find returns the session whose anchor is the nearest among p and its
// ancestors, and the steps from p up to that anchor: the last one is the anchor
// itself. An error that isn't ErrNotRegistered neither places p inside a session
// nor outside: the lineage could not be proved, or p or the anchor has ended.
func (r *Registry) Find(p *peer.Process) (*Session, []Step, error) {
	var found *Session
	alive := false // found's anchor was seen to be
	path := make([]Step, 0, 8)
	err := peer.Ancestors(p, func(q *peer.Process) (bool, error) {
		path = append(path, Step{PID: q.PID(), id: q.ID()})
		if found = r.anchored(q.ID()); found != nil {
			return true, nil
		}
		// Most callers are an anchor's child, and an anchor is held already.
		if s := r.numbered(q.ParentPID()); s != nil && q.ChildOf(s.Anchor) {
			found, alive, path = s, true, append(path, Step{PID: s.Anchor.PID(), id: s.Anchor.ID()})
		}
		return found != nil, nil
	})
	switch {
	case err != nil:
	case found != nil && !alive && !found.Anchor.Alive():
		err = fmt.Errorf("anchor %d: %w", found.Anchor.PID(), peer.ErrGone)
	case !p.Alive():
		err = peer.ErrGone
	default:
		err = r.fits(p, found)
	}
	switch {
	case err != nil:
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

// numbered returns the session whose anchor had the number when it was added.
func (r *Registry) numbered(pid int) *Session {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if e := r.byPID[pid]; e != nil {
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

// All returns the sessions, in no order.
func (r *Registry) All() []*Session {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make([]*Session, 0, len(r.byID))
	for _, e := range r.byID {
		all = append(all, e.session)
	}
	return all
}

// HasUser says whether the user has a session, also one whose end hasn't been
// told yet.
func (r *Registry) HasUser(user uint32) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.users[user] > 0
}

// Len returns how many sessions there are.
func (r *Registry) Len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.byID)
}
