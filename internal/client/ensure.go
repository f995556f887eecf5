package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/verdict"
)

const (
	startTimeout = 15 * time.Second      // until a started broker must listen
	startPoll    = 10 * time.Millisecond // between two looks at its socket
)

// ErrInsideSession is returned when no broker runs and the process belongs to a
// session: a broker that it started would live below that session's anchor.
var ErrInsideSession = errors.New("no broker runs, and this is inside a session")

// Running reports whether a broker listens. It asks nothing of it: a busy broker
// isn't a dead one. In system mode not everybody may open the operators' socket,
// so there the other one is tried.
func Running(ctx context.Context, p paths.Paths) (bool, error) {
	socket := p.OperatorSocket
	if p.Mode == paths.System {
		socket = p.BrokerSocket
	}
	conn, err := peer.Dial(ctx, socket, p.BrokerUID)
	switch {
	case err == nil:
		return true, conn.Close()
	case errors.Is(err, peer.ErrUnavailable):
		return false, nil
	}
	return false, err
}

// EnsureBroker starts the broker if none listens, and returns when one does.
// The broker's own lock keeps it the only one, so two starters at once are
// harmless: one of their brokers ends and both use the other.
func EnsureBroker(ctx context.Context, p paths.Paths) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if up, err := Running(ctx, p); up || err != nil {
		return err
	}
	if p.Mode == paths.System {
		return unstarted(p, errors.New("no broker runs in system mode"))
	}
	if id := os.Getenv("GUARD_SESSION"); id != "" {
		return fmt.Errorf("%w (GUARD_SESSION is %s); run outside of it: guard broker start", ErrInsideSession, verdict.Object(id))
	}
	if err := CheckConfig(p); err != nil {
		return err
	}
	return start(ctx, p)
}

// startTries allows for a broker that ended because the lock was taken, by one
// that was on its way out or by a look of ours.
const startTries = 3

func start(ctx context.Context, p paths.Paths) error {
	said := ""
	for range startTries {
		s, err := spawn(p)
		if err != nil {
			return err
		}
		up, err := wait(ctx, p, s.alive)
		said = s.release()
		if !up && err == nil {
			up, err = wait(ctx, p, func() bool { return locked(p.Lock) })
		}
		if up || err != nil {
			return err
		}
	}
	return fmt.Errorf("starting the broker: it ended before it listened on %q: %s; what it wrote is in %q; correct that, then: guard broker start",
		p.OperatorSocket, said, logPath(p))
}

// wait polls until a broker listens, or until there is nothing to wait for.
func wait(ctx context.Context, p paths.Paths, going func() bool) (bool, error) {
	for {
		more := going() // asked first: what ended after this look listened before it
		up, err := Running(ctx, p)
		if up || err != nil || !more {
			return up, err
		}
		if err := clock.Sleep(ctx, startPoll); err != nil {
			return false, fmt.Errorf("waiting for the broker to listen on %q: %w; see %q", p.OperatorSocket, err, logPath(p))
		}
	}
}

// AwaitStop waits until no broker holds the lock: the one that was told to stop
// has then written its last record.
func AwaitStop(ctx context.Context, p paths.Paths) error {
	for locked(p.Lock) {
		if err := clock.Sleep(ctx, startPoll); err != nil {
			return fmt.Errorf("waiting for the broker to release %q: %w; see %q", p.Lock, err, logPath(p))
		}
	}
	return nil
}

// locked reports whether a process holds the broker's lock. It takes the lock
// for a moment; a broker that starts in that moment finds it taken and ends,
// for which start has its tries.
func locked(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) != nil
}
