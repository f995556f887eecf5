package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/tree"
)

// cgroup makes one below our own, with the process in it.
func cgroup(t *testing.T, name string, p *testproc.Proc) tree.Cgroup {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a cgroup")
	}
	self, err := peer.Self()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = self.Close() }()
	at, err := self.CgroupPath()
	if err != nil {
		t.Skip(err)
	}
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		name := fmt.Sprintf("leaseguard-%d-%s.scope", os.Getpid(), name)
		dir := filepath.Join(mount, at, name)
		if _, err := os.Stat(filepath.Join(mount, at, "cgroup.procs")); err != nil || os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
		move(t, dir, p)
		c, err := tree.CgroupOf(open(t, p), name)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	t.Skip("no cgroup version 2 is mounted")
	return tree.Cgroup{}
}

func move(t *testing.T, dir string, p *testproc.Proc) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(fmt.Sprint(p.PID)), 0); err != nil {
		t.Fatal(err)
	}
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
	move(t, theirs.Dir, child) // into another session's
	find(child, nil, ErrFence)
	move(t, filepath.Dir(c.Dir), child) // out of all
	find(child, nil, ErrFence)
	move(t, c.Dir, child)
	find(child, mine, nil)
	move(t, c.Dir, stranger) // as what has slipped out of the tree
	find(stranger, nil, ErrFence)
	if got := mine.View(1).Cgroup; got != "scope" {
		t.Errorf("status says %q", got)
	}

	r.Remove(mine)
	find(stranger, nil, ErrNotRegistered)
	move(t, filepath.Dir(c.Dir), stranger)
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
	move(t, filepath.Dir(c.Dir), child)
	if got, _, err := r.Find(open(t, child)); got != s || err != nil {
		t.Errorf("Find = %v, %v", got, err)
	}
	if got := s.View(1).Cgroup; got != "user-scope" {
		t.Errorf("status says %q", got)
	}
}
