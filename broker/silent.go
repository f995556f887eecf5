package broker

import (
	"slices"
	"sync"

	"leaseguard.internal/internal/peer"
)

// silents are the connections of a socket that have a place and haven't sent a
// whole request yet, in the order in which they came. Who finds no place left
// gets that of the first of its own that say nothing: an operator who speaks at
// once is never kept out by connections that only stand there.
//
// The zero value is ready; one that is nil holds nothing.
type silents struct {
	door sync.Mutex // held from the look for a place until it is entered here

	mu  sync.Mutex
	all map[tree][]*silent
}

type silent struct {
	in    *pool
	conn  *peer.Conn
	leave func()
}

// enter notes a connection. heard takes it out again; more than once does nothing.
func (s *silents) enter(in *pool, t tree, conn *peer.Conn, leave func()) (heard func()) {
	if s == nil {
		return func() {}
	}
	e := &silent{in, conn, leave}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[tree][]*silent{}
	}
	s.all[t] = append(s.all[t], e)
	return func() { s.drop(t, e) }
}

func (s *silents) drop(t tree, e *silent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.all[t]
	if i := slices.Index(left, e); i >= 0 {
		left = slices.Delete(left, i, i+1)
	}
	if s.all[t] = left; len(left) == 0 {
		delete(s.all, t)
	}
}

// evict ends the oldest of a tree's connections in a pool of which nothing waits
// to be read, and frees its place.
func (s *silents) evict(in *pool, t tree) bool {
	s.mu.Lock()
	i := slices.IndexFunc(s.all[t], func(e *silent) bool { return e.in == in && e.conn.State().Silent })
	if i < 0 {
		s.mu.Unlock()
		return false
	}
	e := s.all[t][i]
	s.mu.Unlock()
	s.drop(t, e)
	e.conn.End()
	e.leave()
	return true
}

// closer holds the door while one is placed, where it matters.
func (s *silents) closer() (open func()) {
	if s == nil {
		return func() {}
	}
	s.door.Lock()
	return s.door.Unlock
}
