package clock

import (
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// stepping is a clock that goes wherever it is told to.
type stepping struct{ now Instant }

func (s *stepping) Now() Instant    { return s.now }
func (s *stepping) Wall() time.Time { return time.Time{} }

func TestSteady(t *testing.T) {
	raw := &stepping{now: Instant(10 * time.Hour)}
	s := NewSteady(raw)
	for _, step := range []struct {
		by   time.Duration
		want time.Duration // that has passed
	}{
		{0, 0}, {time.Second, time.Second}, {-3 * time.Hour, 0}, {time.Minute, time.Minute}, {3 * time.Hour, 3 * time.Hour}, {-time.Nanosecond, 0}, {-24 * time.Hour, 0},
	} {
		before := s.Now()
		raw.now = raw.now.Add(step.by)
		if got := s.Now().Sub(before); got != step.want {
			t.Errorf("after a step of %s: %s have passed, want %s", step.by, got, step.want)
		}
	}
}

// Whatever the clock does, time never goes back, and all that passes counts.
func TestSteadyNeverGoesBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		raw := &stepping{}
		s := NewSteady(raw)
		start, passed := s.Now(), time.Duration(0)
		for range rapid.IntRange(1, 50).Draw(rt, "steps") {
			by := time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(rt, "by"))
			raw.now = raw.now.Add(by)
			passed += max(by, 0)
			if got := s.Now().Sub(start); got != passed {
				rt.Fatalf("%s have passed, want %s", got, passed)
			}
		}
	})
}

func TestSteadyIsSharedSafely(t *testing.T) {
	s := NewSteady(System{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			last := s.Now()
			for range 1000 {
				now := s.Now()
				if now < last {
					t.Errorf("time went back by %s", last.Sub(now))
					return
				}
				last = now
			}
		})
	}
	wg.Wait()
	if s.lead != 0 {
		t.Errorf("the kernel's clock is ahead by %d", s.lead)
	}
}
