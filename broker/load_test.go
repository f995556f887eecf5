package broker

import (
	"testing"
	"time"
)

// TestStaggered: connections that came at once end at different times, none of
// them later than it may and none much sooner.
func TestStaggered(t *testing.T) {
	b, seen := &Broker{}, map[time.Duration]bool{}
	for range 1024 {
		d := b.staggered(headerTime)
		if d > headerTime || d < headerTime*4/5 {
			t.Fatalf("%v is not between %v and %v", d, headerTime*4/5, headerTime)
		}
		seen[d] = true
	}
	if len(seen) != 1024 {
		t.Errorf("1024 connections end at %d different times", len(seen))
	}
}
