package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/clock"
)

// maxConnect bounds one wait for a place at a socket.
const maxConnect = 5 * time.Second

// connect connects to the socket at path, and waits its turn where others crowd
// there. Go's own dialer doesn't wait: with the queue full it fails at once, and
// a few who connect again and again would keep everybody else out. Who waits in
// the kernel is woken one by one as places become free.
//
// The wait has a thread of its own. When ctx ends first, that is left behind: it
// closes what it still gets.
func connect(ctx context.Context, path string) (*net.UnixConn, error) {
	type connected struct {
		conn *net.UnixConn
		err  error
	}
	done := make(chan connected, 1)
	go func() {
		conn, err := wait(ctx, path)
		done <- connected{conn, err}
	}()
	select {
	case c := <-done:
		return c.conn, c.err
	case <-ctx.Done():
		go func() {
			if c := <-done; c.err == nil {
				_ = c.conn.Close()
			}
		}()
		return nil, fmt.Errorf("connecting: %w", context.Cause(ctx))
	}
}

// wait connects with a socket that blocks.
func wait(ctx context.Context, path string) (*net.UnixConn, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("making a socket: %w", err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer func() { _ = f.Close() }() // the connection has a descriptor of its own
	for err = error(unix.EAGAIN); err != nil; {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("connecting: %w", context.Cause(ctx))
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return nil, fmt.Errorf("connecting: %w", err)
		}
		within := unix.NsecToTimeval(max(left(ctx), time.Millisecond).Nanoseconds())
		if err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &within); err != nil {
			return nil, fmt.Errorf("setting SO_SNDTIMEO: %w", err)
		}
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
	}
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	return c.(*net.UnixConn), nil
}

// left is how long a wait may last.
func left(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return maxConnect
	}
	return min(end.Sub(clock.Deadline(0)), maxConnect)
}
