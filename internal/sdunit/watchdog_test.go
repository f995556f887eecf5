package sdunit

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The sign of life needs all loops; one that hangs stops it, whatever the others
// do and however much time passes.
func TestWatchdogNeedsEveryLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var pings atomic.Int32
		w := newWatchdog(8*time.Second, 2, func() error { pings.Add(1); return nil })
		go w.Run(ctx, func(err error) { t.Error(err) })
		turn := func(loops ...int) {
			for range 4 {
				for _, l := range loops {
					w.Round(l)
				}
				time.Sleep(w.Beat())
			}
			synctest.Wait()
		}
		turn(0, 1)
		if n := pings.Swap(0); n != 4 {
			t.Errorf("%d signs in 4 beats", n)
		}
		turn(0)
		turn(0)
		if n := pings.Swap(0); n != 0 {
			t.Errorf("%d signs while a loop hangs", n)
		}
		turn(1)
		if n := pings.Swap(0); n != 1 {
			t.Errorf("%d signs after both came round once", n)
		}
		turn(1, 0)
		if n := pings.Swap(0); n < 3 {
			t.Errorf("%d signs after the loop goes on", n)
		}
	})
}

// Busy loops come round all the time, and don't flood the service manager.
func TestWatchdogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var pings, failures atomic.Int32
		w := newWatchdog(8*time.Second, 2, func() error { pings.Add(1); return errors.New("busy") })
		go w.Run(ctx, func(error) { failures.Add(1) })
		for range 8000 {
			w.Round(0)
			w.Round(1)
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if n := pings.Load(); n < 4 || n > 9 {
			t.Errorf("%d signs in the time of 8 at most", n)
		}
		if failures.Load() != pings.Load() {
			t.Errorf("%d failures were told, want %d", failures.Load(), pings.Load())
		}
	})
}

func TestWatchdogOfNobody(t *testing.T) {
	var w *Watchdog
	w.Round(1)
	w.Run(t.Context(), nil)
	if w.Beat() != 0 {
		t.Error("a beat without a watchdog")
	}
	m := &Manager{notify: "/x", watchdog: 4 * time.Second}
	if got := m.Watchdog(2).Beat(); got != time.Second {
		t.Errorf("beat %v, want a quarter of the time", got)
	}
}
