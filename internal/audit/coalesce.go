package audit

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"leaseguard.internal/internal/clock"
)

const (
	coalesceWindow = time.Second
	coalesceKeys   = 4096 // kinds of denials that are told apart at once
)

// Coalescer turns a flood of equal denials into one record with a count, so
// that a session that hammers can't fill the disk. Denials are equal when
// session, generation, hook event, tool, class and code are. It reads no clock.
// Several goroutines may use it.
type Coalescer struct {
	free uint64 // equal denials that are records of their own, per window

	mu      sync.Mutex
	windows map[denial]*window
	oldest  clock.Instant // when the oldest window began
}

type denial struct {
	session                  string
	generation               uint64
	event, tool, class, code string
}

type window struct {
	began clock.Instant
	seen  uint64
	last  Record
}

// NewCoalescer lets perSecond equal denials of one session through in a second.
func NewCoalescer(perSecond int) *Coalescer {
	return &Coalescer{free: uint64(max(perSecond, 1)), windows: map[denial]*window{}}
}

// Add takes one denial and returns the records to write now: the denial itself
// unless it is held back, and summaries whose second is over. When more kinds
// of denials come at once than it tells apart, the further ones pass.
func (c *Coalescer) Add(r Record, now clock.Instant) []Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.flush(now)
	k := denial{r.Session, r.Generation, clip(r.HookEvent), clip(r.Tool), r.Class, r.Code}
	w := c.windows[k]
	if w == nil {
		if len(c.windows) >= coalesceKeys {
			return append(out, r)
		}
		if len(c.windows) == 0 {
			c.oldest = now
		}
		w = &window{began: now}
		c.windows[k] = w
	}
	w.seen++
	if w.seen <= c.free {
		return append(out, r)
	}
	w.last = r
	return out
}

// Flush returns a record with a count for each kind whose second is over and
// that held some back. Call it every second, and at the end with an instant a
// second ahead.
func (c *Coalescer) Flush(now clock.Instant) []Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flush(now)
}

func (c *Coalescer) flush(now clock.Instant) []Record {
	if len(c.windows) == 0 || now.Sub(c.oldest) < coalesceWindow {
		return nil
	}
	var out []Record
	c.oldest = now
	for k, w := range c.windows {
		if now.Sub(w.began) < coalesceWindow {
			c.oldest = min(c.oldest, w.began)
			continue
		}
		if w.seen > c.free {
			w.last.Count = w.seen - c.free
			out = append(out, w.last)
		}
		delete(c.windows, k)
	}
	slices.SortFunc(out, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Code, b.Code))
	})
	return out
}
