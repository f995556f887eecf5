package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/peer"
)

// The end has stopTime, whatever peers and disk do: a service manager kills what
// takes much longer, and a record that isn't on disk by then never will be.
const (
	stopTime  = 4300 * time.Millisecond // for all of it
	workTime  = 2500 * time.Millisecond // of that, for what is under way
	hurryTime = 500 * time.Millisecond  // of that, for a peer to send or take its bytes
)

// shutdown ends in order: no new calls, what is under way ends, records reach
// the disk.
func (b *Broker) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	b.notify(b.opt.Manager.Stopping())
	for _, l := range b.listeners {
		_ = l.Close() // ends the accept loops; the paths go with it
	}
	err := b.awaitWork(ctx)
	b.endings.close()
	if !within(ctx, b.settings().close) {
		err = errors.Join(err, errors.New("ending what waits for the ZVM: it takes too long"))
	}
	for _, r := range b.floods.Flush(b.opt.Clock.Now().Add(time.Second)) {
		b.audit.Log(r)
	}
	b.record(audit.Record{Event: audit.EventBroker, Code: "stopped"})
	return errors.Join(err, b.releaseWithin(ctx))
}

// awaitWork waits for what is under way. What doesn't end is left: its call has
// no answer, which the gate takes for a denial.
func (b *Broker) awaitWork(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, workTime)
	defer cancel()
	if !within(ctx, b.work.Wait) {
		return fmt.Errorf("waiting for %d calls and what else is under way: it takes longer than %v; they are given up", b.calls.taken(), workTime)
	}
	return nil
}

// within runs f and says whether it ended before ctx did.
func within(ctx context.Context, f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// release closes what Start opened, newest first, when the start has failed.
func (b *Broker) release() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	return b.releaseWithin(ctx)
}

// releaseWithin closes what Start opened, newest first. A disk that doesn't
// answer leaves store and lock to the kernel, which frees them with the process.
func (b *Broker) releaseWithin(ctx context.Context) error {
	var errs []error
	for _, l := range b.listeners {
		_ = l.Close()
	}
	b.fences.manager.Close()
	if b.audit != nil {
		b.audit.SaveHead()
		errs = append(errs, b.audit.Close(ctx))
	}
	if b.store != nil {
		closed := make(chan error, 1)
		if within(ctx, func() { closed <- b.store.Close() }) {
			errs = append(errs, <-closed)
		} else {
			return errors.Join(append(errs, errors.New("closing the store: the disk doesn't answer"))...)
		}
	}
	if b.lock != nil {
		errs = append(errs, b.lock.Close())
	}
	return errors.Join(errs...)
}

// deadline bounds the next reads and writes of conn by the process's own clock.
// A broker that stops leaves no peer more than a moment.
func (b *Broker) deadline(conn *peer.Conn, d time.Duration) {
	_ = conn.SetDeadline(clock.Deadline(d)) // fails only on a closed connection, whose reads then fail
	if d > hurryTime && b.stopping.Load() { // asked afterwards, so that none slips through between
		_ = conn.SetDeadline(clock.Deadline(hurryTime))
	}
}

// hurry bounds what conn waits for from the moment that the broker stops.
func (b *Broker) hurry(ctx context.Context, conn *peer.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		b.stopping.Store(true)
		_ = conn.SetDeadline(clock.Deadline(hurryTime))
	})
}
