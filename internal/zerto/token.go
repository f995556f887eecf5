package zerto

import (
	"context"
	"sync"
	"time"

	"leaseguard.internal/internal/clock"
)

const (
	renewMargin = 15 * time.Second // a token is used no longer than this before its end
	maxLife     = 24 * time.Hour   // a longer promise of the ZVM isn't believed
	keepWarm    = 10 * time.Minute // how long a token is renewed after its last use
	warmPause   = 5 * time.Second  // between failed renewals ahead of time
)

// bearer is an access token and when it has to be renewed.
type bearer struct {
	value  string
	serial uint64 // which token of this client it is
	renew  clock.Instant
	life   time.Duration // from getting it to renew
}

// tokens holds the current token. One caller at a time renews it; while it is
// in use a goroutine renews it ahead of time, so that no call waits for that.
type tokens struct {
	clk   clock.Clock
	fetch func(context.Context) (value string, life time.Duration, err error)

	turn chan struct{} // held by whoever renews

	mu      sync.Mutex
	current bearer
	used    clock.Instant // last use
	failed  error         // of the latest renewal, nil after a success
	failure clock.Instant // when that was
	warming bool
	closed  bool
	work    sync.WaitGroup
	ctx     context.Context // ends with the client
	stop    context.CancelFunc
}

func newTokens(clk clock.Clock, fetch func(context.Context) (string, time.Duration, error)) *tokens {
	t := &tokens{clk: clk, fetch: fetch, turn: make(chan struct{}, 1)}
	t.ctx, t.stop = context.WithCancel(context.Background())
	return t
}

// get returns a token that is good for at least one request.
func (t *tokens) get(ctx context.Context) (bearer, error) {
	b, ok := t.fresh(0)
	if ok {
		return b, nil
	}
	return t.renewed(ctx, 0)
}

// fresh notes a use, and returns the current token if its renewal is more than
// ahead away.
func (t *tokens) fresh(ahead time.Duration) (bearer, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clk.Now()
	if ahead == 0 {
		t.used = now
	}
	return t.current, t.current.value != "" && now.Add(ahead) < t.current.renew
}

// renewed gets a new token unless somebody else has tried meanwhile: a wrong
// secret that every waiting call presents would lock the account.
func (t *tokens) renewed(ctx context.Context, ahead time.Duration) (bearer, error) {
	began := t.clk.Now()
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return bearer{}, &Error{Op: "waiting for a token", Err: ctx.Err(), Token: true}
	}
	if b, ok := t.fresh(ahead); ok {
		return b, nil
	}
	if err := t.failedSince(began); err != nil {
		return bearer{}, err
	}
	asked := t.clk.Now() // its life may have begun any time after
	value, life, err := t.fetch(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed, t.failure = err, t.clk.Now()
	if err != nil {
		if ctx.Err() != nil {
			t.failed = nil // its caller gave up, which says nothing to others
		}
		return bearer{}, err
	}
	life = usable(life)
	t.current = bearer{value: value, serial: t.current.serial + 1, renew: asked.Add(life), life: life}
	t.keep()
	return t.current, nil
}

// failedSince returns the error of a renewal that ended after began.
func (t *tokens) failedSince(began clock.Instant) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure > began {
		return t.failed
	}
	return nil
}

// usable is how long a token of that life is used: half of it, and at least
// renewMargin less than all of it. A quarter is the least, or a very short one
// would be renewed for every request.
func usable(life time.Duration) time.Duration {
	return max(min(life/2, life-renewMargin), life/4)
}

// refuse forgets a token that the ZVM didn't take, unless it is gone already.
func (t *tokens) refuse(b bearer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current.serial == b.serial {
		t.current.value = ""
	}
}

// keep starts the goroutine that keeps the token warm. The caller holds mu.
func (t *tokens) keep() {
	if t.warming || t.closed {
		return
	}
	t.warming = true
	t.work.Add(1)
	go func() {
		defer t.work.Done()
		for t.warm() {
		}
	}()
}

// warm renews the token once, a little before a caller would have to. It
// returns false when nobody needs it any more.
func (t *tokens) warm() bool {
	t.mu.Lock()
	now := t.clk.Now()
	ahead := t.current.life / 5
	wait := t.current.renew.Add(-ahead).Sub(now)
	if t.closed || now.Sub(t.used) > keepWarm {
		t.warming = false
		t.mu.Unlock()
		return false
	}
	t.mu.Unlock()
	if clock.Sleep(t.ctx, max(wait, 0)) != nil {
		return true // closed: the next look ends it
	}
	ctx, cancel := context.WithTimeout(t.ctx, getTime)
	defer cancel()
	if _, err := t.renewed(ctx, ahead); err != nil {
		_ = clock.Sleep(t.ctx, warmPause) // a caller that needs it meets the error itself
	}
	return true
}

func (t *tokens) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.stop()
	t.work.Wait()
}
