package session

import (
	"fmt"
	"testing"
	"unsafe"

	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/testproc"
)

// TestIndexesAreLeftEmpty: what Add counts, Remove and the next generation count
// back; otherwise a user's room would shrink until nothing can be launched.
func TestIndexesAreLeftEmpty(t *testing.T) {
	zoo := testproc.New(t)
	r := NewRegistry(2)
	first := zoo.Start()
	old := session(t, "s1", 1, first)
	mustAdd(t, r, old)
	first.Kill()
	next, other := session(t, "s1", 2, zoo.Start()), session(t, "s2", 1, zoo.Start())
	mustAdd(t, r, next)
	mustAdd(t, r, other)
	if r.users[1000] != 2 || len(r.byAnchor) != 2 || len(r.byPID) != 2 {
		t.Errorf("%d sessions of the user, %d anchors, %d numbers; want 2", r.users[1000], len(r.byAnchor), len(r.byPID))
	}
	for _, s := range []*Session{old, next, next, other} {
		r.Remove(s)
	}
	if n := len(r.byID) + len(r.byAnchor) + len(r.byPID) + len(r.users) + len(r.above) + len(r.watch.held) + len(r.watch.fds); n != 0 {
		t.Errorf("%d entries are left in the indexes: %+v", n, r)
	}
}

// crowd is a registry with n sessions more than there are processes for: their
// anchors' identities are made up.
func crowd(n int) *Registry {
	r := NewRegistry(n + 2)
	common := made(1)
	for i := range n {
		id := made(uint64(i) + 2)
		e := &entry{session: &Session{ID: fmt.Sprintf("%016x", i), UID: 1000}, above: []peer.ID{common}}
		r.byID[e.session.ID], r.byAnchor[id], r.byPID[-i-1] = e, e, e
		r.users[1000]++
		r.above[common]++
	}
	return r
}

// made is an identity that no process has: pidfs counts up from small numbers.
func made(n uint64) (id peer.ID) {
	*(*uint64)(unsafe.Pointer(&id)) = 1<<63 + n
	return id
}

// BenchmarkRegistry shows that neither a look-up nor a registration gets slower
// by the sessions of others.
func BenchmarkRegistry(b *testing.B) {
	zoo := testproc.New(b)
	anchor := zoo.Start()
	child := anchor.Spawn(false, false)
	for _, n := range []int{1_000, 10_000, 100_000} {
		r := crowd(n)
		s := &Session{ID: "s", UID: 1000, Generation: 1, Anchor: mustOpen(b, anchor.PID)}
		caller := mustOpen(b, child.PID)
		b.Run(fmt.Sprintf("add-remove/sessions=%d", n), func(b *testing.B) {
			for b.Loop() {
				if err := r.Add(s); err != nil {
					b.Fatal(err)
				}
				r.Remove(s)
			}
		})
		if err := r.Add(s); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("find/sessions=%d", n), func(b *testing.B) {
			for b.Loop() {
				if found, _, err := r.Find(caller); err != nil || found != s {
					b.Fatal(found, err)
				}
			}
		})
		b.Run(fmt.Sprintf("by-id/sessions=%d", n), func(b *testing.B) {
			for b.Loop() {
				if r.ByID("s") != s {
					b.Fatal("not found")
				}
			}
		})
		b.Run(fmt.Sprintf("lease/sessions=%d", n), func(b *testing.B) {
			for b.Loop() {
				if r.ByID("s").Lease(1).GateSeen() {
					b.Fatal("a gate was seen")
				}
			}
		})
	}
}

func mustOpen(b *testing.B, pid int) *peer.Process {
	b.Helper()
	p, err := peer.Open(pid)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = p.Close() })
	return p
}
