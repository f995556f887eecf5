package broker

import (
	"testing"

	"leaseguard.internal/broker/session"
)

// TestPool: whatever one uid takes by however many sessions, another session of
// its own still gets a place, and other uids get more than they need.
func TestPool(t *testing.T) {
	p := newPool(400, firstFew, 100)
	const greedy, quiet = 1000, 1001
	flood := func(trees int) (taken int) {
		for range trees {
			for t := (tree{user: greedy, session: &session.Session{}}); ; taken++ {
				if p.take(t, 1, 32) != fits {
					break
				}
			}
		}
		return taken
	}
	if n := flood(1); n != 32 {
		t.Errorf("one session has %d places, want its limit", n)
	}
	if n := 32 + flood(9); n < 200 || n > 200+4*firstFew {
		t.Errorf("ten sessions have %d of 400 places, want half and a few", n)
	}
	next := tree{user: greedy, session: &session.Session{}}
	if p.take(next, 1, 32) != fits {
		t.Error("the user's next session has no place")
	} else {
		p.give(next, 1)
	}
	flood(1000)
	if free := p.all - p.used; free < 100 {
		t.Errorf("a thousand sessions leave %d of 400 places", free)
	}
	for range 50 {
		if p.take(tree{user: quiet}, 1, 64) != fits {
			t.Fatal("another user has no place")
		}
	}
	if p.take(tree{user: quiet}, 1, 50) != treeFull {
		t.Error("another user has more than the limit")
	}
}

// TestPoolIsEmptyAgain: who has left is forgotten.
func TestPoolIsEmptyAgain(t *testing.T) {
	p := newPool(8, firstFew, 0)
	var in []tree
	for user := range uint32(3) {
		for range 2 {
			if t := (tree{user: user}); p.take(t, 1, 2) == fits {
				in = append(in, t)
			}
		}
	}
	for _, t := range in {
		p.give(t, 1)
	}
	if len(in) == 0 || p.taken() != 0 || p.outside != 0 || len(p.trees) != 0 || len(p.users) != 0 {
		t.Errorf("after %d have left: %d taken, of %d trees and %d users", len(in), p.taken(), len(p.trees), len(p.users))
	}
}

// TestPoolKeepsRoomForSessions: thousands of uids outside of sessions leave a
// quarter to sessions, and a user's part in that flood costs no session of others.
func TestPoolKeepsRoomForSessions(t *testing.T) {
	p := newPool(400, firstFew, 100)
	for user := range uint32(10_000) {
		for p.take(tree{user: user}, 1, 64) == fits {
		}
	}
	if p.taken() != 300 {
		t.Errorf("the flood has %d of 400 places, want 300", p.taken())
	}
	victim := tree{user: 20_000, session: &session.Session{}}
	for n := range 32 {
		if p.take(victim, 1, 32) != fits {
			t.Fatalf("a session has only %d places", n)
		}
	}
}

// TestPoolOfBytes: what comes in pieces is held to the same rule as what comes
// one by one, and never passes the whole.
func TestPoolOfBytes(t *testing.T) {
	p := newPool(1000, 100, 0)
	greedy, other := tree{user: 1, session: &session.Session{}}, tree{user: 2, session: &session.Session{}}
	for p.take(greedy, 60, 5000) == fits {
	}
	if n := p.taken(); n < 440 || n > 500 {
		t.Errorf("one user has %d of 1000 bytes, want not quite half", n)
	}
	if p.take(tree{user: 1, session: &session.Session{}}, 100, 5000) != fits || p.take(tree{user: 1, session: &session.Session{}}, 101, 5000) == fits {
		t.Error("a further session of the user doesn't get its few, or more than them")
	}
	if p.take(other, 400, 5000) == fits || p.take(other, 200, 5000) != fits {
		t.Error("the next user doesn't get what it leaves free, or more")
	}
}
