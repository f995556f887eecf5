package clock

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestSystemRuns(t *testing.T) {
	a := System{}.Now()
	b := System{}.Now()
	if a <= 0 || b < a {
		t.Fatalf("CLOCK_BOOTTIME went from %d to %d", a, b)
	}
	if (System{}).Wall().Location() != time.UTC {
		t.Error("wall time isn't UTC")
	}
	if id, err := BootID(); err != nil || len(id) != 36 {
		t.Errorf("boot id %q, %v", id, err)
	}
}

func TestFake(t *testing.T) {
	f := NewFake(Instant(time.Second), time.Unix(100, 0))
	f.StepWall(-time.Hour)
	if f.Now() != Instant(time.Second) {
		t.Error("a step of the wall clock moved the instant")
	}
	f.Advance(3 * time.Hour)
	if f.Now().Sub(Instant(time.Second)) != 3*time.Hour || !f.Wall().Equal(time.Unix(100, 0).Add(2*time.Hour)) {
		t.Errorf("now %v, wall %v", f.Now(), f.Wall())
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := Sleep(context.Background(), time.Nanosecond); err != nil {
		t.Errorf("got %v", err)
	}
}
