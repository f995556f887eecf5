package audit

import (
	"cmp"
	"slices"
	"time"

	"leaseguard.internal/internal/clock"
)

const (
	coalesceWindow = time.Second
	coalesceFree   = 20   // equal denials of a session that are records of their own, per window
	coalesceKeys   = 4096 // kinds of denials that are told apart at once
)

// Coalescer turns a flood of equal denials into one record with a count, so
// that a session that hammers can't fill the disk. Denials are equal when
// session, generation, hook event, tool, class and code are. It is pure: the
// clock is passed in. The zero Coalescer is ready; it isn't for several
// goroutines at once.
type Coalescer struct {
	windows map[denial]*window
	oldest  clock.Instant // when the oldest window began
	held    int
}

type denial struct {
	session                string
	generation             uint64
	event, tool, cls, code string
}

type window struct {
	began clock.Instant
	seen  uint64
	last  Record
}

// Add takes one record and returns those to write now: the record itself unless
// it is held back, and summaries whose second is over.
func (c *Coalescer) Add(r Record, now clock.Instant) []Record {
	out := c.Flush(now)
	if r.Event != EventVerdict || r.Verdict != "deny" || r.Count > 0 {
		return append(out, r)
	}
	k := denial{r.Session, r.Generation, r.HookEvent, clip(r.Tool), r.Class, r.Code}
	w := c.windows[k]
	if w == nil {
		if len(c.windows) >= coalesceKeys {
			return append(out, r)
		}
		if c.windows == nil {
			c.windows = map[denial]*window{}
		}
		if len(c.windows) == 0 {
			c.oldest = now
		}
		w = &window{began: now}
		c.windows[k] = w
	}
	w.seen++
	if w.seen <= coalesceFree {
		return append(out, r)
	}
	c.held++
	w.last = r
	return out
}

// Flush ends the windows whose second is over and returns the last record of
// each that held some back, with their number as Count.
func (c *Coalescer) Flush(now clock.Instant) []Record {
	if now.Sub(c.oldest) < coalesceWindow {
		return nil
	}
	var out []Record
	c.oldest = now
	for k, w := range c.windows {
		if now.Sub(w.began) < coalesceWindow {
			c.oldest = min(c.oldest, w.began)
			continue
		}
		if w.seen > coalesceFree {
			w.last.Count = w.seen - coalesceFree
			out = append(out, w.last)
			c.held -= int(w.last.Count)
		}
		delete(c.windows, k)
	}
	slices.SortFunc(out, func(a, b Record) int { return cmp.Compare(a.BootNS, b.BootNS) })
	return out
}

// Holds says whether records are held back.
func (c *Coalescer) Holds() bool { return c.held > 0 }
