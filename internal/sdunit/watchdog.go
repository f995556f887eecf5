package sdunit

import (
	"context"
	"sync/atomic"
	"time"

	"leaseguard.internal/internal/clock"
)

// Watchdog tells the service manager that we live. It is fed by the loops that
// do the work and by nothing else: a timer would go on while they hang. A nil
// Watchdog is fed in vain.
type Watchdog struct {
	every  time.Duration
	all    uint32
	rounds atomic.Uint32 // a bit for each loop that came round since the last sign
	due    chan struct{}
	ping   func() error
}

// Watchdog returns what so many loops feed, or nil if the service manager wants
// no sign of life.
func (m *Manager) Watchdog(loops int) *Watchdog {
	if m == nil || m.notify == "" || m.watchdog <= 0 {
		return nil
	}
	return newWatchdog(m.watchdog, loops, func() error { return m.tell("WATCHDOG=1") })
}

func newWatchdog(every time.Duration, loops int, ping func() error) *Watchdog {
	return &Watchdog{every: every, all: 1<<loops - 1, due: make(chan struct{}, 1), ping: ping}
}

// Beat is within what time a loop without work has to come round; 0: it needn't.
func (w *Watchdog) Beat() time.Duration {
	if w == nil {
		return 0
	}
	return w.every / 4
}

// Round says that a loop, counted from 0, has come round.
func (w *Watchdog) Round(loop int) {
	if w == nil {
		return
	}
	bit := uint32(1) << loop
	if before := w.rounds.Or(bit); before|bit == w.all && before != w.all {
		select {
		case w.due <- struct{}{}:
		default:
		}
	}
}

// Run gives a sign each time that all loops have come round, and at most eight in
// the time that one is wanted in. failed hears of those that could not be sent.
func (w *Watchdog) Run(ctx context.Context, failed func(error)) {
	if w == nil {
		return
	}
	for {
		select {
		case <-w.due:
		case <-ctx.Done():
			return
		}
		if err := w.ping(); err != nil {
			failed(err)
		}
		if clock.Sleep(ctx, w.every/8) != nil {
			return
		}
		select { // what came round meanwhile will again
		case <-w.due:
		default:
		}
		w.rounds.Store(0)
	}
}
