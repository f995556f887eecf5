package clock

import (
	"sync"
	"time"
)

// Fake is a clock that a test moves by hand. The zero value stands at instant
// 0 and at the zero wall time; it may be used from several goroutines.
type Fake struct {
	mu   sync.Mutex
	now  Instant
	wall time.Time
}

// NewFake returns a fake that stands at now and wall.
func NewFake(now Instant, wall time.Time) *Fake { return &Fake{now: now, wall: wall} }

// Now returns the fake's instant.
func (f *Fake) Now() Instant {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// Wall returns the fake's wall time.
func (f *Fake) Wall() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wall
}

// Advance moves both clocks, as running time does.
func (f *Fake) Advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
	f.wall = f.wall.Add(d)
}

// StepWall moves the wall clock alone, as an administrator or NTP does.
func (f *Fake) StepWall(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wall = f.wall.Add(d)
}
