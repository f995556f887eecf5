package passphrase

import (
	"context"
	"fmt"
	"sync"
	"time"

	"leaseguard.internal/internal/clock"
)

// Delays after wrong passphrases in a row. A person mistypes twice without
// noticing any of it.
const (
	freeFailures = 2
	firstDelay   = time.Second
	maxDelay     = 30 * time.Second
)

// DelayError says that nothing is looked at for a while.
type DelayError struct {
	Failures int
	Left     time.Duration
}

// Error says how long.
func (e *DelayError) Error() string {
	return fmt.Sprintf("%d passphrases in a row were wrong, so none is looked at for %s", e.Failures, e.Left)
}

// Checker makes and checks hashes, one at a time.
type Checker struct {
	clock clock.Clock
	turn  chan struct{} // who computes holds it

	mu       sync.Mutex
	failures int           // in a row
	until    clock.Instant // nothing is looked at before
}

// NewChecker returns a checker that has seen no failure.
func NewChecker(c clock.Clock) *Checker {
	return &Checker{clock: c, turn: make(chan struct{}, 1)}
}

// Check says whether text is the passphrase of h: nil, ErrWrong, a *DelayError,
// or why ctx ended before it was this one's turn.
func (c *Checker) Check(ctx context.Context, h Hash, text string) error {
	if err := c.take(ctx); err != nil {
		return err
	}
	defer c.give()
	if err := c.delayed(); err != nil { // asked in turn: whoever was before may have failed
		return err
	}
	right := h.fits(text)
	c.count(right)
	if !right {
		return ErrWrong
	}
	return nil
}

// Make returns the hash of a new passphrase.
func (c *Checker) Make(ctx context.Context, text string) (Hash, error) {
	if err := c.take(ctx); err != nil {
		return Hash{}, err
	}
	defer c.give()
	return hash(text)
}

func (c *Checker) take(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for a turn at the passphrase: %w", context.Cause(ctx))
	}
}

func (c *Checker) give() { <-c.turn }

func (c *Checker) delayed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if left := c.until.Sub(c.clock.Now()); left > 0 {
		return &DelayError{Failures: c.failures, Left: (left + time.Second - 1).Truncate(time.Second)}
	}
	return nil
}

// count starts the next delay, or forgets the failures.
func (c *Checker) count(right bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if right {
		c.failures = 0
		return
	}
	c.failures++
	if over := c.failures - freeFailures; over > 0 {
		c.until = c.clock.Now().Add(min(firstDelay<<min(over-1, 10), maxDelay))
	}
}
