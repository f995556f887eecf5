package policy

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"leaseguard.internal/internal/clock"
)

const (
	idPrefix = "elicit_evaluate_"
	keepOpen = 10 * time.Minute
	maxOpen  = 32 // of one session
)

// open remembers evaluations that the server may still hold, so that the next call
// of the same tool and input comes back to the same approval.
type open struct {
	clock clock.Clock

	mu  sync.Mutex
	all map[string]map[[sha256.Size]byte]*evaluation // by session
}

type evaluation struct {
	id    string
	until clock.Instant
	busy  bool // a call asks by this id now
}

func newOpen(clk clock.Clock) *open {
	return &open{clock: clk, all: map[string]map[[sha256.Size]byte]*evaluation{}}
}

// take returns the id for a question: that of an evaluation still open which
// nobody else asks for now (again), or a new one.
func (o *open) take(q question) (id string, again bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ev := o.all[q.session][q.key]; ev != nil && !ev.busy && o.clock.Now() < ev.until {
		ev.busy = true
		return ev.id, true, nil
	}
	o.forget(o.clock.Now())
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", false, fmt.Errorf("drawing the id of an evaluation: %w", err)
	}
	return idPrefix + hex.EncodeToString(b[:]), false, nil
}

// done takes in what came of an evaluation.
func (o *open) done(q question, id string, out outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.clock.Now()
	mine := o.all[q.session]
	switch ev := mine[q.key]; {
	case ev != nil && ev.id != id: // an older one of the same call stays
	case out.open() && q.closed():
		o.keep(q, &evaluation{id: id, until: now.Add(keepOpen)})
	case ev != nil && out.sent:
		delete(mine, q.key)
	case ev != nil:
		ev.busy = false // it wasn't asked
	}
	o.forget(now)
}

// keep puts one among those of its session. The one that ends first makes room.
func (o *open) keep(q question, ev *evaluation) {
	mine := o.all[q.session]
	if mine == nil {
		mine = map[[sha256.Size]byte]*evaluation{}
		o.all[q.session] = mine
	}
	mine[q.key] = ev
	if len(mine) <= maxOpen {
		return
	}
	oldest := q.key
	for key, other := range mine {
		if other.until < mine[oldest].until {
			oldest = key
		}
	}
	delete(mine, oldest)
}

// forget drops what has ended.
func (o *open) forget(now clock.Instant) {
	for session, mine := range o.all {
		for key, ev := range mine {
			if !ev.busy && now >= ev.until {
				delete(mine, key)
			}
		}
		if len(mine) == 0 {
			delete(o.all, session)
		}
	}
}
