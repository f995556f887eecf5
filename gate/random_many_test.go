//go:build faults

package gate

import "time"

// A thousand, each within its deadline of 1 s and what starting a process takes
// on a machine that starts sixteen at once.
const (
	randomFaults = 1000
	workers      = 16
	slack        = 2 * time.Second
)
