package session

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/testproc"
)

func mustAdd(t *testing.T, r *Registry, s *Session) {
	t.Helper()
	if err := r.Add(s); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Remove(s) })
}

func TestFind(t *testing.T) {
	zoo := testproc.New(t)
	anchor, stranger := zoo.Start(), zoo.Start()
	shell := anchor.Spawn(false, true)
	gate := shell.Spawn(false, false)
	r := NewRegistry(8)
	s := session(t, "s1", 1, anchor)
	mustAdd(t, r, s)

	for _, tt := range []struct {
		name string
		from *testproc.Proc
		path []*testproc.Proc
	}{
		{"the anchor itself", anchor, []*testproc.Proc{anchor}},
		{"child", shell, []*testproc.Proc{shell, anchor}},
		{"grandchild", gate, []*testproc.Proc{gate, shell, anchor}},
		{"stranger", stranger, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found, path, err := r.Find(open(t, tt.from))
			if tt.path == nil {
				if !errors.Is(err, ErrNotRegistered) || found != nil || path != nil {
					t.Errorf("Find = %v, %v, %v; want ErrNotRegistered", found, path, err)
				}
				return
			}
			if err != nil || found != s || len(path) != len(tt.path) {
				t.Fatalf("Find = %v, %v, %v", found, path, err)
			}
			for i, step := range path {
				if step.PID != tt.path[i].PID {
					t.Errorf("step %d is %d, want %d", i, step.PID, tt.path[i].PID)
				}
				want, err := open(t, tt.path[i]).Exe()
				if exe, stepErr := step.Exe(); err != nil || stepErr != nil || exe != want {
					t.Errorf("step %d runs %q, %v; want %q, %v", i, exe, stepErr, want, err)
				}
			}
		})
	}
}

func TestStepOfAnotherProcess(t *testing.T) {
	p := open(t, testproc.New(t).Start())
	wrong := Step{PID: p.PID()}
	if exe, err := wrong.Exe(); !errors.Is(err, peer.ErrGone) {
		t.Errorf("Exe = %q, %v; want ErrGone", exe, err)
	}
}

func TestFindNobody(t *testing.T) {
	r := NewRegistry(8)
	if s, _, err := r.Find(nil); err == nil || errors.Is(err, ErrNotRegistered) || s != nil {
		t.Errorf("Find(nil) = %v, %v", s, err)
	}
	// The zero ID must not find a session, whatever is registered.
	if r.anchored(peer.ID{}) != nil {
		t.Error("the zero ID is an anchor")
	}
	if err := r.Add(&Session{ID: "s"}); !errors.Is(err, peer.ErrGone) {
		t.Errorf("Add without an anchor: %v, want ErrGone", err)
	}
}

func TestI2_RenamedAnchorStaysFound(t *testing.T) {
	anchor := testproc.New(t).Start()
	gate := anchor.Spawn(false, false)
	r := NewRegistry(8)
	s := session(t, "s1", 1, anchor)
	mustAdd(t, r, s)
	for _, name := range []string{"a b", "x) R 1 (y", ")", strings.Repeat("\xff", 15)} {
		anchor.Rename(name)
		if found, _, err := r.Find(open(t, gate)); err != nil || found != s {
			t.Errorf("named %q: Find = %v, %v", name, found, err)
		}
	}
}

func TestI7_OrphansBelongToNobody(t *testing.T) {
	zoo := testproc.New(t)
	r := NewRegistry(8)
	anchor := zoo.Start()
	anchor.Subreaper() // as the launcher makes it
	first := session(t, "s1", 1, anchor)
	mustAdd(t, r, first)
	shell := anchor.Spawn(false, false)
	orphan := shell.Spawn(false, true)
	shell.Kill()
	shell.Reap(anchor)
	if found, _, err := r.Find(open(t, orphan)); err != nil || found != first {
		t.Fatalf("below a living anchor: Find = %v, %v", found, err)
	}
	anchor.Kill()
	if found, _, err := r.Find(open(t, orphan)); !errors.Is(err, ErrNotRegistered) {
		t.Errorf("after the anchor's end: Find = %v, %v; want ErrNotRegistered", found, err)
	}
	mustAdd(t, r, session(t, "s1", 2, zoo.Start()))
	if found, _, err := r.Find(open(t, orphan)); !errors.Is(err, ErrNotRegistered) {
		t.Errorf("under the next generation: Find = %v, %v; want ErrNotRegistered", found, err)
	}
}

// Only a proof up to the top says that a process is outside all sessions: an
// operator's rights rest on it.
func TestFindWithoutProof(t *testing.T) {
	unproved := func(t *testing.T, r *Registry, p *peer.Process) {
		t.Helper()
		if s, _, err := r.Find(p); !errors.Is(err, peer.ErrGone) || errors.Is(err, ErrNotRegistered) || s != nil {
			t.Errorf("Find = %v, %v; want ErrGone alone", s, err)
		}
	}
	t.Run("zombie anchor", func(t *testing.T) {
		anchor := testproc.New(t).Start()
		r := NewRegistry(8)
		mustAdd(t, r, session(t, "s1", 1, anchor))
		held := open(t, anchor)
		anchor.Kill()
		unproved(t, r, held)
	})
	t.Run("anchor closed too early", func(t *testing.T) {
		anchor := testproc.New(t).Start()
		r := NewRegistry(8)
		s := session(t, "s1", 1, anchor)
		mustAdd(t, r, s)
		_ = s.Anchor.Close()
		unproved(t, r, open(t, anchor))
	})
	t.Run("caller ended", func(t *testing.T) {
		zoo := testproc.New(t)
		anchor := zoo.Start()
		r := NewRegistry(8)
		mustAdd(t, r, session(t, "s1", 1, anchor))
		inside, outside := anchor.Spawn(false, false), zoo.Start()
		for p, parent := range map[*testproc.Proc]*testproc.Proc{inside: anchor, outside: nil} {
			held := open(t, p)
			p.Kill()
			unproved(t, r, held)
			p.Reap(parent)
			unproved(t, r, held)
		}
	})
}

func TestLookups(t *testing.T) {
	zoo := testproc.New(t)
	r := NewRegistry(8)
	for _, id := range []string{"bb", "ab", "aa"} {
		mustAdd(t, r, session(t, id, 1, zoo.Start()))
	}
	if s := r.ByID("a"); s != nil {
		t.Errorf("ByID of a prefix = %v", s.ID)
	}
	if r.ByID("aa") == nil || len(r.All()) != 3 || r.Len() != 3 {
		t.Errorf("All has %d, Len is %d, want 3", len(r.All()), r.Len())
	}
	aa := r.ByID("aa")
	r.Remove(aa)
	r.Remove(aa)
	if r.ByID("aa") != nil || r.anchored(aa.Anchor.ID()) != nil || r.Len() != 2 {
		t.Errorf("after Remove: %v, %d sessions", r.ByID("aa"), r.Len())
	}
}

func TestConcurrentUse(t *testing.T) {
	zoo := testproc.New(t)
	anchor := zoo.Start()
	p := open(t, anchor.Spawn(false, false))
	s := session(t, "s", 1, anchor)
	r := NewRegistry(1)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 50 {
				if i == 0 {
					if err := r.Add(s); err != nil {
						t.Error(err)
					}
					r.Remove(s)
					continue
				}
				if found, _, err := r.Find(p); err == nil && found != s || err != nil && !errors.Is(err, ErrNotRegistered) {
					t.Errorf("Find = %v, %v", found, err)
				}
				_ = fmt.Sprint(len(r.All()), r.Len())
			}
		})
	}
	wg.Wait()
}
