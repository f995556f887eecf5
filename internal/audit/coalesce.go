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
	coalesceKeys   = 4096 // kinds of records that are told apart at once
	sweepEvery     = coalesceWindow / 10
	burst          = 200 // records that a session may cause before it has to wait for more
)

// Coalescer keeps a session that hammers from filling the disk, and from pushing
// older records out of it. It takes records that grant nothing. Equal ones, of
// which session, generation, hook event, tool, class and code agree, become one
// with a count when there are too many in a second. Whatever they are, a session
// may cause a burst of 200, and then as many a second as equal ones are let
// through; those beyond become one a second for each code. It reads no clock.
// Several goroutines may use it.
type Coalescer struct {
	free uint64 // per window and kind, and per second and session

	mu      sync.Mutex
	windows map[kind]*window
	budgets map[string]*budget
	oldest  clock.Instant // when the oldest window began
	swept   clock.Instant // when windows were last looked through
}

// kind is what equal records agree in. Of a mixed kind only session, generation
// and code count.
type kind struct {
	session                  string
	generation               uint64
	event, tool, class, code string
	mixed                    bool
}

type window struct {
	began clock.Instant
	seen  uint64
	free  uint64
	last  Record
}

// budget is how many records a session may still cause at an instant.
type budget struct {
	left float64
	at   clock.Instant
}

// NewCoalescer lets perSecond equal records of one session through in a second.
func NewCoalescer(perSecond int) *Coalescer {
	return &Coalescer{free: uint64(max(perSecond, 1)), windows: map[kind]*window{}, budgets: map[string]*budget{}}
}

// Add takes one record and returns those to write now: itself unless it is held
// back, and summaries whose second is over.
func (c *Coalescer) Add(r Record, now clock.Instant) []Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Record
	if now.Sub(c.swept) >= sweepEvery { // looking through all windows has its price
		out = c.flush(now)
	}
	same := kind{r.Session, r.Generation, clip(r.HookEvent), clip(r.Tool), r.Class, r.Code, false}
	if w := c.window(same, c.free, now); w != nil {
		w.seen++
		if w.seen > w.free {
			w.last = r
			return out
		}
	}
	if c.spend(r.Session, now) {
		return append(out, r)
	}
	r.Tool, r.ToolUse, r.HookEvent, r.InputSHA256, r.Targets = "", "", "", "", nil // it stands for different ones
	if w := c.window(kind{session: r.Session, generation: r.Generation, code: r.Code, mixed: true}, 0, now); w != nil {
		w.seen++
		w.last = r
	}
	return out
}

// window returns the window of a kind, nil when too many kinds came at once.
func (c *Coalescer) window(k kind, free uint64, now clock.Instant) *window {
	if w := c.windows[k]; w != nil {
		return w
	}
	if len(c.windows) >= coalesceKeys && !k.mixed {
		return nil
	}
	if len(c.windows) == 0 {
		c.oldest = now
	}
	w := &window{began: now, free: free}
	c.windows[k] = w
	return w
}

// spend takes one record of a session's budget.
func (c *Coalescer) spend(session string, now clock.Instant) bool {
	b := c.budgets[session]
	if b == nil {
		b = &budget{left: burst, at: now}
		c.budgets[session] = b
	}
	b.left = min(burst, b.left+now.Sub(b.at).Seconds()*float64(c.free))
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// Flush returns a record with a count for each kind whose second is over and
// that held some back. Call it every second, and at the end with an instant a
// second ahead.
func (c *Coalescer) Flush(now clock.Instant) []Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	for session, b := range c.budgets {
		if b.left+now.Sub(b.at).Seconds()*float64(c.free) >= burst {
			delete(c.budgets, session) // it is full again, as a new one is
		}
	}
	return c.flush(now)
}

func (c *Coalescer) flush(now clock.Instant) []Record {
	c.swept = now
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
		if w.seen > w.free {
			w.last.Count = w.seen - w.free
			out = append(out, w.last)
		}
		delete(c.windows, k)
	}
	slices.SortFunc(out, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Code, b.Code))
	})
	return out
}
