package session

import (
	"context"
	"slices"
	"testing"

	"leaseguard.internal/internal/testproc"
)

// watching runs Watch until the test ends, and tells of the ends.
func watching(t *testing.T, r *Registry) <-chan *Session {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ends, done := make(chan *Session, 16), make(chan error)
	go func() { done <- r.Watch(ctx, func(s *Session) { ends <- s }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch: %v", err)
		}
		if len(ends) != 0 {
			t.Errorf("told of %q once too often", (<-ends).ID)
		}
	})
	return ends
}

func TestWatch(t *testing.T) {
	zoo := testproc.New(t)
	r := NewRegistry(8)
	before, during, removed, lives := zoo.Start(), zoo.Start(), zoo.Start(), zoo.Start()

	mustAdd(t, r, session(t, "before", 1, before))
	before.Kill() // it ended before anyone watched, and stays a zombie
	ends := watching(t, r)
	if s := <-ends; s.ID != "before" {
		t.Errorf("told of %q, want before", s.ID)
	}

	gone := session(t, "removed", 1, removed)
	mustAdd(t, r, gone)
	mustAdd(t, r, session(t, "lives", 1, lives))
	mustAdd(t, r, session(t, "during", 1, during))
	r.Remove(gone)
	removed.Kill()
	lives.Exec(false) // an exec is no end
	during.Kill()
	during.Reap(nil)
	if s := <-ends; s.ID != "during" {
		t.Errorf("told of %q, want during", s.ID)
	}
}

// The session may close its anchor and be removed from within the callback, and
// a number that is used again doesn't confuse the two.
func TestWatchReusesDescriptors(t *testing.T) {
	zoo := testproc.New(t)
	r := NewRegistry(8)
	ends := watching(t, r)
	for _, id := range []string{"s1", "s2", "s3", "s4"} {
		anchor := zoo.Start()
		s := session(t, id, 1, anchor)
		mustAdd(t, r, s)
		anchor.Kill()
		if got := <-ends; got != s {
			t.Fatalf("told of %q, want %q", got.ID, id)
		}
		_ = s.Anchor.Close()
		r.Remove(s)
	}
}

func TestWatchTellsOfTheReplacedGeneration(t *testing.T) {
	zoo := testproc.New(t)
	r := NewRegistry(8)
	first, second := zoo.Start(), zoo.Start()
	old, next := session(t, "s1", 1, first), session(t, "s1", 2, second)
	mustAdd(t, r, old)
	first.Kill()
	mustAdd(t, r, next)
	ends := watching(t, r)
	if s := <-ends; s != old {
		t.Errorf("told of generation %d, want the old one", s.Generation)
	}
	second.Kill()
	if s := <-ends; s != next {
		t.Errorf("told of generation %d, want the next one", s.Generation)
	}
}

func TestWatchOnceAtATime(t *testing.T) {
	r := NewRegistry(8)
	anchor := testproc.New(t).Start()
	mustAdd(t, r, session(t, "s1", 1, anchor))
	ctx, cancel := context.WithCancel(context.Background())
	started, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- r.Watch(ctx, func(*Session) { close(started) })
	}()
	anchor.Kill()
	<-started
	if err := r.Watch(context.Background(), func(*Session) {}); err == nil {
		t.Error("two watch at once")
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Watch: %v", err)
	}
	// After its end it can be called again, here with a context that has ended.
	if err := r.Watch(ctx, func(*Session) {}); err != nil {
		t.Errorf("Watch again: %v", err)
	}
}

func TestSessionEndsOnce(t *testing.T) {
	s := session(t, "s1", 1, testproc.New(t).Start())
	got := []bool{s.Gone(), s.End(0), s.End(0), s.Gone()}
	if want := []bool{false, true, false, true}; !slices.Equal(got, want) {
		t.Errorf("Gone, End, End, Gone = %v, want %v", got, want)
	}
}
