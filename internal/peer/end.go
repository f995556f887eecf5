package peer

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/proc"
)

// WaitEnd waits until the process has ended, reaped or not: then it returns nil.
// Any error, the end of ctx among them, says nothing about the process.
//
// Unlike a parent-death signal it belongs to the process and not to the thread
// that started us, and nobody can block, ignore or reset it.
func (p *Process) WaitEnd(ctx context.Context) error {
	var fd int
	err := p.withFd(func(own int) (err error) {
		fd, err = unix.FcntlInt(uintptr(own), unix.F_DUPFD_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return fmt.Errorf("waiting for process %d to end: %w", p.PID(), err)
	}
	// Non-blocking descriptors wait in the runtime's poller, where a deadline
	// ends the wait. Nobody waits for a child by this pidfd.
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return fmt.Errorf("waiting for process %d to end: %w", p.PID(), err)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	if err := waitReadable(ctx, f); err != nil {
		return fmt.Errorf("waiting for process %d to end: %w", p.PID(), err)
	}
	return nil
}

// waitReadable waits until the pidfd f is readable.
func waitReadable(ctx context.Context, f *os.File) error {
	raw, err := f.SyscallConn()
	if err == nil {
		err = f.SetReadDeadline(time.Time{})
	}
	if err != nil { // not pollable: waiting could never be ended
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(past) })()
	var pollErr error
	err = raw.Read(func(fd uintptr) bool {
		gone, err := ended(int(fd))
		pollErr = err
		return gone || err != nil
	})
	switch {
	case pollErr != nil:
		return pollErr
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	}
	return err
}

// LeaderEnded says whether the process's first thread has ended, whatever other
// threads still run: what is left of it has neither a program nor a directory
// that could be looked at. A poll doesn't see that. On error it is unknown.
func (p *Process) LeaderEnded() (bool, error) {
	ended := true
	err := p.withDir(func(d proc.Dir) error {
		st, err := d.Stat()
		if err == nil {
			ended = st.State == 'Z' || st.State == 'X'
		}
		return err
	})
	return ended, err
}
