package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/tree"
)

// cgroup makes one with the process in it.
func cgroup(t *testing.T, name string, p *testproc.Proc) tree.Cgroup {
	t.Helper()
	name = fmt.Sprintf("leaseguard-%d-%s.scope", os.Getpid(), name)
	testproc.Cgroup(t, name, p.PID)
	c, err := tree.CgroupOf(open(t, p), name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Lineage and cgroup must both fit: who has left one of them is neither inside
// the session nor proved to be outside of all.
func TestFence(t *testing.T) {
	zoo := testproc.New(t)
	anchor, other, stranger := zoo.Start(), zoo.Start(), zoo.Start()
	c, theirs := cgroup(t, "mine", anchor), cgroup(t, "theirs", other)
	child := anchor.Spawn(false, true)
	r := NewRegistry(10)
	mine, second := session(t, "mine", 1, anchor), session(t, "theirs", 1, other)
	for _, s := range []*Session{mine, second} {
		if err := r.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Enclose(mine, Fence{Cgroup: c, Boundary: true}); err != nil {
		t.Fatal(err)
	}
	if err := r.Enclose(second, Fence{Cgroup: c, Boundary: true}); !errors.Is(err, ErrTaken) {
		t.Errorf("two sessions share a cgroup: %v", err)
	}
	if err := r.Enclose(second, Fence{Cgroup: theirs, Boundary: true}); err != nil {
		t.Fatal(err)
	}
	find := func(p *testproc.Proc, want *Session, wantErr error) {
		t.Helper()
		if got, _, err := r.Find(open(t, p)); got != want || !errors.Is(err, wantErr) {
			t.Errorf("Find = %v, %v; want %v, %v", got, err, want, wantErr)
		}
	}
	find(child, mine, nil)
	find(stranger, nil, ErrNotRegistered)
	testproc.Move(t, theirs.Dir, child.PID) // into another session's
	find(child, nil, ErrFence)
	testproc.Move(t, filepath.Dir(c.Dir), child.PID) // out of all
	find(child, nil, ErrFence)
	testproc.Move(t, c.Dir, child.PID)
	find(child, mine, nil)
	testproc.Move(t, c.Dir, stranger.PID) // as what has slipped out of the tree
	find(stranger, nil, ErrFence)
	if got := mine.View(1).Cgroup; got != "scope" {
		t.Errorf("status says %q", got)
	}

	r.Remove(mine)
	find(stranger, nil, ErrNotRegistered)
}

// In user mode the session's user can move processes as it likes: then the cgroup
// decides nothing.
func TestFenceThatIsNoBoundary(t *testing.T) {
	zoo := testproc.New(t)
	anchor := zoo.Start()
	c := cgroup(t, "user", anchor)
	child := anchor.Spawn(false, false)
	r := NewRegistry(10)
	s := session(t, "s", 1, anchor)
	if err := r.Add(s); err != nil {
		t.Fatal(err)
	}
	if err := r.Enclose(s, Fence{Cgroup: c}); err != nil {
		t.Fatal(err)
	}
	testproc.Move(t, filepath.Dir(c.Dir), child.PID)
	if got, _, err := r.Find(open(t, child)); got != s || err != nil {
		t.Errorf("Find = %v, %v", got, err)
	}
	if got := s.View(1).Cgroup; got != "user-scope" {
		t.Errorf("status says %q", got)
	}
}
