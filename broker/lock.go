package broker

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrRunning means that another broker serves this run directory. It is not a fault of
// the one that is refused; whoever wanted a broker has one.
var ErrRunning = errors.New("another broker is running")

// runLock makes this the one broker of a run directory. It is held for the
// process's life and released by the kernel with it, so that nobody ever has to
// guess from an unanswered ping whether a broker is dead.
type runLock struct{ f *os.File }

func takeLock(path string) (*runLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600) // #nosec G304 -- from paths, whose directory was checked
	if err != nil {
		return nil, fmt.Errorf("opening broker lock %q: %w", path, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder := "unknown"
		if b, rerr := os.ReadFile(path); rerr == nil { // #nosec G304 -- the same file
			holder = strings.TrimSpace(string(b[:min(len(b), 20)]))
		}
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking %q: %w with pid %s; use it, or end it with: guard broker stop", path, ErrRunning, holder)
		}
		return nil, fmt.Errorf("locking %q: %w", path, err)
	}
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0) // for people; the lock alone counts
	}
	return &runLock{f: f}, nil
}

// Close releases the lock. The file stays: removing it would let two brokers
// lock two files of one name.
func (l *runLock) Close() error { return l.f.Close() }
