package broker

import (
	"sync"

	"leaseguard.internal/broker/session"
)

// pool is the connections that one socket holds at once, each in a place of a
// tree: those of one session, or those of one uid that are in no session.
//
// Nobody's flood takes a place of another's. A tree has at most the limit that
// it is given. A uid has no more places than it leaves free, so there is always
// room for the next one; beyond that share a tree gets its first few, so that one
// session doesn't lack what others of its uid take, as long as a quarter of all
// is left to other uids.
type pool struct {
	mu    sync.Mutex
	all   int
	used  int
	trees map[tree]int
	uids  map[uint32]int
}

// tree is whose a connection is.
type tree struct {
	uid     uint32
	session *session.Session // nil: the uid's processes that are in no session
}

// firstFew places are given to a tree beyond its uid's share.
const firstFew = 4

func newPool(all int) *pool {
	return &pool{all: all, trees: map[tree]int{}, uids: map[uint32]int{}}
}

// full says why there is no place.
type full int

const (
	fits     full = iota
	treeFull      // the tree has its limit
	uidFull       // its uid has its share, or all places are taken
)

// take takes a place; leave gives it back.
func (p *pool) take(t tree, limit int) (leave func(), f full) {
	p.mu.Lock()
	defer p.mu.Unlock()
	free := p.all - p.used
	switch {
	case p.trees[t] >= limit:
		return nil, treeFull
	case free <= 0, p.uids[t.uid] >= free && (p.trees[t] >= firstFew || free <= p.all/4):
		return nil, uidFull
	}
	p.used++
	p.trees[t]++
	p.uids[t.uid]++
	return func() { p.leave(t) }, fits
}

func (p *pool) leave(t tree) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used--
	if p.trees[t]--; p.trees[t] == 0 {
		delete(p.trees, t)
	}
	if p.uids[t.uid]--; p.uids[t.uid] == 0 {
		delete(p.uids, t.uid)
	}
}

// taken is how many places are taken.
func (p *pool) taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}
