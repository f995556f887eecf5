// Package clock is the only place where leaseguard reads a clock.
//
// Everything that ends authority is measured on CLOCK_BOOTTIME, which goes on
// while the machine is suspended: a closed lid never stretches a lease. The
// Instant type keeps wall time out of such comparisons at compile time.
package clock

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Instant is a point on CLOCK_BOOTTIME, in nanoseconds since boot. Instants of
// different boots can't be compared; the boot id that BootID returns says so.
type Instant int64

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from o to i.
func (i Instant) Sub(o Instant) time.Duration { return time.Duration(i - o) }

// Clock is what tells time. Only lease arithmetic uses Now; Wall is for people
// and records, never for a decision.
type Clock interface {
	Now() Instant
	Wall() time.Time
}

// System is the kernel's clock.
type System struct{}

// Now reads CLOCK_BOOTTIME. A kernel that can't tell the time can't run a
// lease, so a failure stops the program.
func (System) Now() Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("reading CLOCK_BOOTTIME: %v", err))
	}
	return Instant(ts.Nano())
}

// Wall reads the wall clock in UTC.
func (System) Wall() time.Time { return time.Now().UTC() }

// Sleep waits for d or for the end of ctx, whose error it then returns.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// BootID returns the kernel's random id of this boot.
func BootID() (string, error) {
	const path = "/proc/sys/kernel/random/boot_id"
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading boot id: %w", err)
	}
	id := strings.TrimSpace(string(b))
	if len(id) != 36 {
		return "", fmt.Errorf("reading boot id %q: want 36 characters, got %d", path, len(id))
	}
	return id, nil
}

// Deadline is the wall time d from now, in the form that the net package wants;
// it carries Go's monotonic reading, so a step of the wall clock doesn't move it.
func Deadline(d time.Duration) time.Time { return time.Now().Add(d) }

// Monotonic is the time since boot without that spent suspended: what systemd
// compares its own time stamps with. Nothing of ours is measured on it.
func Monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
