package clock

import (
	"sync"
	"time"
)

// Steady is a clock whose Now never goes back. CLOCK_BOOTTIME doesn't either, but
// a machine that is restored while it runs, or a process that is moved into
// another time namespace, may see it jump. A jump forth counts: time has passed,
// and leases end. A jump back is taken out, and time runs on from where it was:
// standing still until the clock has caught up would make leases last as long.
type Steady struct {
	clock Clock

	mu   sync.Mutex
	last Instant // as the clock said
	lead Instant // what was taken out so far
}

// NewSteady returns a steady clock on top of another.
func NewSteady(c Clock) *Steady { return &Steady{clock: c} }

// Now reads the clock under the lock, so that no reader is overtaken by an older
// reading.
func (s *Steady) Now() Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if now < s.last {
		s.lead += s.last - now
	}
	s.last = now
	return now + s.lead
}

// Wall is the other clock's.
func (s *Steady) Wall() time.Time { return s.clock.Wall() }
