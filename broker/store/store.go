package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"

	bolt "go.etcd.io/bbolt"

	"leaseguard.internal/internal/failpoint"
)

// Store is an open store. Its methods may be called by several goroutines.
type Store struct {
	path     string
	file     os.FileInfo // to tell whether it is still the one under path
	db       *bolt.DB
	key      [32]byte
	readOnly bool

	ops     chan *op
	quit    chan struct{}
	ended   chan struct{}
	closing sync.Once
	closed  error // what closing the file said

	mu     sync.Mutex
	err    error         // first failure, for ever
	broken chan struct{} // closed when bbolt panicked: its locks may be held for ever
}

// op is one write on its way.
type op struct {
	ctx   context.Context
	apply func(*bolt.Tx) error
	done  chan error
}

// batchOps bounds what one commit serves, and what waits for the next one.
const batchOps = 256

// write runs apply in a transaction and returns when it is on disk. apply's own
// error refuses its caller alone; what it has changed by then is kept. When
// ctx ends first, the write may still happen.
func (s *Store) write(ctx context.Context, what string, apply func(*bolt.Tx) error) error {
	if s.readOnly {
		return fmt.Errorf("%s: %w", what, ErrReadOnly)
	}
	if err := s.Err(); err != nil {
		return err
	}
	o := &op{ctx: ctx, apply: apply, done: make(chan error, 1)}
	select {
	case s.ops <- o:
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	case <-s.quit:
		return fmt.Errorf("%s: %w", what, ErrClosed)
	case <-s.broken:
		return s.Err()
	}
	err := ErrClosed
	select {
	case err = <-o.done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-s.broken:
		err = s.Err()
	case <-s.ended:
		select { // the last commit may have served it
		case err = <-o.done:
		default:
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// run is the one goroutine that writes.
func (s *Store) run() {
	defer close(s.ended)
	for {
		select {
		case o := <-s.ops:
			s.commit(s.drain(o))
		case <-s.quit:
			for len(s.ops) > 0 {
				s.commit(s.drain(<-s.ops))
			}
			return
		}
	}
}

func (s *Store) drain(first *op) []*op {
	batch := []*op{first}
	for len(batch) < batchOps {
		select {
		case o := <-s.ops:
			batch = append(batch, o)
		default:
			return batch
		}
	}
	return batch
}

// commit serves a batch with one transaction.
func (s *Store) commit(batch []*op) {
	results := make([]error, len(batch))
	err := s.Err()
	if err == nil {
		err = s.fail(guarded(func() error { return s.transact(batch, results) }))
	}
	if hit := failpoint.Hit("store/before-reply"); err == nil {
		err = hit
	}
	for i, o := range batch {
		if err != nil {
			results[i] = err
		}
		o.done <- results[i]
	}
}

func (s *Store) transact(batch []*op, results []error) error {
	if err := failpoint.Hit("store/before-begin"); err != nil {
		return err
	}
	err := s.db.Update(func(tx *bolt.Tx) error {
		for i, o := range batch {
			if results[i] = o.ctx.Err(); results[i] == nil {
				results[i] = o.apply(tx)
			}
		}
		return failpoint.Hit("store/before-commit")
	})
	if err == nil {
		err = s.inPlace()
	}
	if err != nil {
		return err
	}
	return failpoint.Hit("store/after-commit")
}

// inPlace makes sure that the file is still the one under its name: what stands
// in a file that somebody removed or replaced is gone with this process, and its
// lock keeps no second broker out.
func (s *Store) inPlace() error {
	named, err := os.Lstat(s.path)
	if err != nil {
		return fmt.Errorf("looking for it: %w", err)
	}
	if !os.SameFile(s.file, named) {
		return errors.New("it was replaced while it was open")
	}
	return nil
}

// read runs f on what is on disk.
func (s *Store) read(what string, f func(*bolt.Tx) error) error {
	if s.isBroken() {
		return s.Err()
	}
	err := guarded(func() error { return s.db.View(f) })
	var p *panicError
	if errors.As(err, &p) {
		return s.fail(err)
	}
	if err != nil {
		return fmt.Errorf("%s in store %q: %w", what, s.path, err)
	}
	return nil
}

func (s *Store) isBroken() bool {
	select {
	case <-s.broken:
		return true
	default:
		return false
	}
}

// panicError is a panic of bbolt, or a fault in its memory map.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("%v: %v", ErrDamaged, e.value) }
func (e *panicError) Unwrap() error { return ErrDamaged }

// guarded turns panics into errors. A file that somebody shortens under its
// memory map raises SIGBUS, which SetPanicOnFault makes a panic as well.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p}
		}
	}()
	return f()
}

// fail makes the first failure stay.
func (s *Store) fail(err error) error {
	if err == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = fmt.Errorf("using store %q: %w; free the disk or repair the directory, then run: guard broker restart", s.path, err)
	}
	var p *panicError
	if errors.As(err, &p) && !s.isBroken() {
		close(s.broken)
	}
	return s.err
}

// Err returns the failure that ended writing, if one did. Nothing that raises
// authority may go on then.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Key returns the random key for digests of tool inputs, made once per store.
func (s *Store) Key() [32]byte { return s.key }

// Close ends the writing goroutine after what is queued and frees the file.
func (s *Store) Close() error {
	s.closing.Do(func() {
		close(s.quit)
		select {
		case <-s.ended:
		case <-s.broken:
		}
		if s.isBroken() { // closing would wait for locks that nobody frees; the process ends soon
			return
		}
		if err := guarded(s.db.Close); err != nil {
			s.closed = fmt.Errorf("closing store %q: %w", s.path, err)
		}
	})
	return s.closed
}
