package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

// past is a deadline that ends a waiting read at once.
var past = time.Unix(1, 0)

// WaitClosed waits until the peer's end of the connection is closed by all who
// hold it, as a launcher's is by its exec. Anything that arrives instead is
// ErrTalks, and the end of ctx its error.
func (c *Conn) WaitClosed(ctx context.Context) error {
	if len(c.ahead) > 0 {
		return fmt.Errorf("waiting for the end of a connection: %w", ErrTalks)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.sock.SetReadDeadline(past) })
	defer stop()
	var b [1]byte
	_, err := c.sock.Read(b[:])
	switch {
	case err == nil:
		return fmt.Errorf("waiting for the end of a connection: %w", ErrTalks)
	case errors.Is(err, io.EOF), errors.Is(err, unix.ECONNRESET):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("waiting for the end of a connection: %w", err)
}

// CancelOnHangup calls cancel when the peer's end is closed by all who hold it:
// nobody is left to read an answer. A peer that only says that it writes no more
// hasn't hung up. Nothing may be read from c until stop was called, which ends
// the watch and leaves c without a useful read deadline.
func (c *Conn) CancelOnHangup(cancel func()) (stop func()) {
	done := make(chan struct{})
	raw, err := c.sock.SyscallConn()
	if err == nil {
		err = c.sock.SetReadDeadline(time.Time{})
	}
	if err != nil { // the connection is closed on our side
		cancel()
		return func() {}
	}
	go func() {
		defer close(done)
		if raw.Read(func(fd uintptr) bool { return hungUp(int(fd)) }) == nil {
			cancel()
		}
	}()
	return func() {
		_ = c.sock.SetReadDeadline(past)
		<-done
	}
}

// hungUp polls a socket. Not even the state of one that can't be polled is
// known: its peer counts as gone.
func hungUp(fd int) bool {
	events, err := poll(fd, 0)
	return err != nil || events&(unix.POLLHUP|unix.POLLERR) != 0
}
