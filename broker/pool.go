package broker

import (
	"sync"

	"leaseguard.internal/broker/session"
)

// pool is what many share: the connections that one socket holds at once, or the
// bytes of payloads in flight. Each part is taken for a tree: one session, or one
// user's processes that are in no session.
//
// Nobody's flood takes what another needs. A tree has at most the limit that it
// is given. A user has no more than it leaves free, so there is always room for
// the next one; beyond that share a tree gets a few, so that one session doesn't
// lack what others of its user take, as long as a quarter of all is left to other
// users. And some is kept for sessions where they share with who is in none: there
// one person may have as many uids as they like.
type pool struct {
	mu      sync.Mutex
	all     int
	few     int // for each tree, beyond its user's share
	kept    int // for sessions alone
	used    int
	outside int // of these, by who is in no session
	trees   map[tree]int
	users   map[uint32]int
}

// tree is whose a connection is.
type tree struct {
	user    uint32           // see owners
	session *session.Session // nil: the user's processes that are in no session
}

// firstFew connections are given to a tree beyond its user's share.
const firstFew = 4

func newPool(all, few, kept int) *pool {
	return &pool{all: all, few: few, kept: kept, trees: map[tree]int{}, users: map[uint32]int{}}
}

// full says why there is no room.
type full int

const (
	fits     full = iota
	treeFull      // the tree has its limit
	uidFull       // its user has their share, or nothing is left
)

// take takes n for a tree; give gives them back.
func (p *pool) take(t tree, n, limit int) full {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.all - p.used - n
	switch {
	case p.trees[t]+n > limit:
		return treeFull
	case left < 0, t.session == nil && p.outside+n > p.all-p.kept:
		return uidFull
	case p.users[t.user]+n-1 > left && (p.trees[t]+n > p.few || left < p.all/4):
		return uidFull
	}
	p.count(t, n)
	return fits
}

func (p *pool) give(t tree, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(t, -n)
}

// count counts up or down. The caller holds the lock.
func (p *pool) count(t tree, n int) {
	p.used += n
	if t.session == nil {
		p.outside += n
	}
	if p.trees[t] += n; p.trees[t] == 0 {
		delete(p.trees, t)
	}
	if p.users[t.user] += n; p.users[t.user] == 0 {
		delete(p.users, t.user)
	}
}

// taken is how much is taken.
func (p *pool) taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}
