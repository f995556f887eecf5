package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/durable"
)

// Opening is bounded in time, whatever the file system does: a dead network
// mount can hold up even a look at its type.
const (
	lockTime  = time.Second
	lockRetry = 50 * time.Millisecond
	openTime  = 10 * time.Second
)

// Open opens the store for the one broker that uses it, and makes it when it
// isn't there. Its directory has to be safe: see internal/safepath.
func Open(path string) (*Store, error) {
	s, err := bounded(path, openTime, func() (*Store, error) { return open(path, false, self()) })
	if err != nil {
		return nil, err
	}
	go s.run()
	return s, nil
}

// OpenReadOnly opens the store beside no broker, to look at it. owner is whose
// file it has to be: the broker's uid, which in system mode isn't the caller's.
func OpenReadOnly(path string, owner uint32) (*Store, error) {
	s, err := bounded(path, openTime, func() (*Store, error) { return open(path, true, owner) })
	if err != nil {
		return nil, err
	}
	close(s.ended) // nothing writes
	return s, nil
}

// bounded opens within limit. What comes later is closed again.
func bounded(path string, limit time.Duration, open func() (*Store, error)) (*Store, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	type result struct {
		s   *Store
		err error
	}
	done := make(chan result)
	go func() {
		s, err := open()
		select {
		case done <- result{s, err}:
		case <-ctx.Done():
			if s != nil {
				_ = s.db.Close() // nobody waits for it any more
			}
		}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return nil, fmt.Errorf("opening store %q: %w", path, r.err)
		}
		return r.s, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("opening store %q: its file system didn't answer within %s; put the state directory on a local disk", path, limit)
	}
}

func self() uint32 { return uint32(os.Geteuid()) } //nolint:gosec // the kernel's uids are 32 bits

func open(path string, readOnly bool, owner uint32) (*Store, error) {
	if err := checkFileSystem(filepath.Dir(path)); err != nil {
		return nil, err
	}
	f, made, err := openFile(path, readOnly, owner)
	if err != nil {
		return nil, err
	}
	if err := lock(f, readOnly); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("looking at it: %w", err), f.Close())
	}
	s := &Store{
		path: path, file: info, readOnly: readOnly, ops: make(chan *op, batchOps),
		quit: make(chan struct{}), ended: make(chan struct{}), broken: make(chan struct{}),
	}
	if err := s.inPlace(); err != nil { // who held the lock has renamed it
		return nil, errors.Join(err, f.Close())
	}
	if err := s.openBolt(f); err != nil {
		// bbolt has closed the file, unless it panicked. Its memory map then
		// still holds the lock, so closing alone wouldn't free it.
		_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
		_ = f.Close()
		if errors.Is(err, ErrDamaged) {
			return nil, &damage{fmt.Errorf("%w; guard broker start sets it aside and begins a new one", err), info}
		}
		return nil, err
	}
	if made {
		err = durable.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	return s, nil
}

// openBolt hands the locked file to bbolt and reads all that is in it.
func (s *Store) openBolt(f *os.File) error {
	if err := checkPages(f); err != nil {
		return err
	}
	opts := &bolt.Options{
		Timeout: lockTime, NoFreelistSync: true, FreelistType: bolt.FreelistMapType, ReadOnly: s.readOnly,
		OpenFile: func(string, int, os.FileMode) (*os.File, error) { return f, nil },
	}
	err := guarded(func() (err error) {
		s.db, err = bolt.Open(s.path, 0o600, opts)
		return err
	})
	if err != nil {
		return fmt.Errorf("reading it: %w", err)
	}
	err = guarded(s.takeIn)
	var p *panicError
	if err != nil && !errors.As(err, &p) { // after a panic its locks may be held
		err = errors.Join(err, s.db.Close())
	}
	return err
}

// takeIn makes what an empty file needs, reads all that is in it, and then
// commits once, which also mends the meta page that wasn't chosen. What turns out
// not to be a store of ours is never written to.
func (s *Store) takeIn() error {
	empty := false
	if err := s.db.View(func(tx *bolt.Tx) error {
		k, _ := tx.Cursor().First()
		empty = k == nil
		return nil
	}); err != nil {
		return err
	}
	if empty && !s.readOnly {
		if err := s.db.Update(prepare); err != nil {
			return err
		}
	}
	err := s.db.View(func(tx *bolt.Tx) (err error) {
		s.key, err = validate(tx)
		return err
	})
	if err != nil || s.readOnly {
		return err
	}
	return s.db.Update(addLater)
}

// openFile opens or makes the file and refuses what nobody but this uid should
// have made.
func openFile(path string, readOnly bool, owner uint32) (f *os.File, made bool, err error) {
	flags := os.O_RDWR
	if readOnly {
		flags = os.O_RDONLY
	}
	f, err = os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0) //nolint:gosec // the broker's own path; what is there is checked below
	if errors.Is(err, os.ErrNotExist) && !readOnly {
		made = true
		f, err = os.OpenFile(path, flags|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600) //nolint:gosec // as above
	}
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, false, errors.New("it is a symbolic link, want a regular file; move it away")
	case err != nil:
		var p *os.PathError
		if errors.As(err, &p) {
			err = p.Err // the path stands in front already
		}
		return nil, false, err
	}
	if err := checkFile(f, path, owner); err != nil {
		return nil, false, errors.Join(err, f.Close())
	}
	return f, made, nil
}

func checkFile(f *os.File, path string, owner uint32) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("looking at it: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || !info.Mode().IsRegular():
		return fmt.Errorf("it is %s, want a regular file; move it away", info.Mode().Type())
	case st.Uid != owner:
		return fmt.Errorf("its owner is uid %d, want %d; run: chown %d %q", st.Uid, owner, owner, path)
	case info.Mode().Perm() != 0o600:
		return fmt.Errorf("its mode is %04o, want 0600; run: chmod 0600 %q", info.Mode().Perm(), path)
	case st.Nlink != 1:
		return fmt.Errorf("it has %d names, want one; remove the other hard links", st.Nlink)
	}
	return nil
}

// lock takes the file's lock before anything of it is read, and names who has
// it. bbolt then takes the same lock once more, which succeeds.
func lock(f *os.File, shared bool) error {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockTime)
	defer cancel()
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("locking it: %w", err)
		}
		if clock.Sleep(ctx, lockRetry) != nil {
			return fmt.Errorf("%w: %s holds its lock; run: guard broker stop", ErrLocked, holder(f))
		}
	}
}
