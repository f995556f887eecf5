package broker

import (
	"testing"

	"leaseguard.internal/broker/session"
)

// TestPool: whatever one uid takes by however many sessions, another session of
// its own still gets a place, and other uids get more than they need.
func TestPool(t *testing.T) {
	p := newPool(400)
	const greedy, quiet = 1000, 1001
	flood := func(trees int) (taken int) {
		for range trees {
			for t := (tree{uid: greedy, session: &session.Session{}}); ; taken++ {
				if _, full := p.take(t, 32); full != fits {
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
	leave, full := p.take(tree{uid: greedy, session: &session.Session{}}, 32)
	if full != fits {
		t.Error("the user's next session has no place")
	} else {
		leave()
	}
	flood(1000)
	if free := p.all - p.used; free < 100 {
		t.Errorf("a thousand sessions leave %d of 400 places", free)
	}
	for range 50 {
		if _, full := p.take(tree{uid: quiet}, 64); full != fits {
			t.Fatal("another user has no place")
		}
	}
	if _, full := p.take(tree{uid: quiet}, 50); full != treeFull {
		t.Error("another user has more than the limit")
	}
}

// TestPoolIsEmptyAgain: who has left is forgotten.
func TestPoolIsEmptyAgain(t *testing.T) {
	p := newPool(8)
	var leaves []func()
	for uid := range uint32(3) {
		for range 2 {
			leave, full := p.take(tree{uid: uid}, 2)
			if full == fits {
				leaves = append(leaves, leave)
			}
		}
	}
	for _, leave := range leaves {
		leave()
	}
	if len(leaves) == 0 || p.taken() != 0 || len(p.trees) != 0 || len(p.uids) != 0 {
		t.Errorf("after %d have left: %d taken, of %d trees and %d uids", len(leaves), p.taken(), len(p.trees), len(p.uids))
	}
}
