package policy

import (
	"fmt"
	"sync"
	"time"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/verdict"
)

// A server that has failed is left alone for a while, twice as long each time.
const (
	firstRest   = 10 * time.Second
	longestRest = 60 * time.Second
	enough      = 3 // attempts in a row without an answer
)

// breakers keep a dead server from costing every call its whole budget. While one
// is open calls are denied at once; then a single call tries.
//
// That there is no connection concerns everybody. That an evaluation is held, or
// fails there, may be the call's own doing, so it concerns its session alone: no
// session can have another's calls denied.
type breakers struct {
	clock clock.Clock

	mu  sync.Mutex
	all map[string]*breaker // by session; "": of all
}

type breaker struct {
	failures int
	rest     time.Duration
	until    clock.Instant // left alone; zero: it isn't
	last     clock.Instant // failure
	trying   bool
	cause    string
}

func newBreakers(clk clock.Clock) *breakers {
	return &breakers{clock: clk, all: map[string]*breaker{}}
}

// admit lets a call ask, or says why not. What comes back to an open approval is
// held up by the breaker of all alone. done takes what came of it.
func (b *breakers) admit(session string, again bool) (done func(outcome), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var tries []*breaker
	for _, name := range []string{"", session} {
		one := b.all[name]
		if one == nil || one.until == 0 || again && name != "" {
			continue
		}
		if left := one.until.Sub(b.clock.Now()); left > 0 {
			return nil, fmt.Errorf("it was not asked, since it failed before (%s); it is tried again in %.0f s", one.cause, left.Seconds()+0.5)
		}
		if one.trying {
			return nil, fmt.Errorf("it was not asked, since it failed before (%s); another call is trying it now", one.cause)
		}
		tries = append(tries, one)
	}
	for _, one := range tries {
		one.trying = true
	}
	return func(o outcome) { b.done(session, o, tries) }, nil
}

func (b *breakers) done(session string, o outcome, tries []*breaker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range tries {
		one.trying = false
	}
	if o.gone {
		return // it says nothing of the server
	}
	switch {
	case o.reached && !o.tired:
		delete(b.all, "")
		delete(b.all, session)
	case !o.tired && !o.late: // it has cost no time
	case o.sent:
		delete(b.all, "")
		b.fail(session, o)
	default:
		b.fail("", o)
	}
}

// fail counts the attempts of an evaluation that failed.
func (b *breakers) fail(name string, o outcome) {
	now := b.clock.Now()
	for other, old := range b.all { // sessions that are long gone
		if !old.trying && now.Sub(old.last) > keepOpen {
			delete(b.all, other)
		}
	}
	one := b.all[name]
	if one == nil {
		one = &breaker{}
		b.all[name] = one
	}
	one.failures += max(o.tries, 1)
	one.last = now
	one.cause = verdict.Cut(o.why(), 200)
	if one.failures < enough {
		return
	}
	one.rest = min(max(2*one.rest, firstRest), longestRest)
	one.until = now.Add(one.rest)
}
