//go:build !faults

package gate

import "time"

// As many as a run of all tests has time for, and no look at the clock.
const (
	randomFaults = 100
	workers      = 50
	slack        = 30 * time.Second
)
