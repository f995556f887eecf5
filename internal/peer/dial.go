package peer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/safepath"
)

// Dial connects to a broker and makes sure, before anything is sent, that it is
// one: the socket's directory may be written by wantUID and root alone, and who
// listens is one of the two. Where others crowd it waits until ctx ends. Errors
// are ErrUnavailable when nobody answers, and ErrUntrusted or ErrPath when
// something is there that must not be talked to.
func Dial(ctx context.Context, path string, wantUID uint32) (net.Conn, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	err := safepath.Dir(filepath.Dir(path), wantUID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("dialing %q: %w: %w", path, ErrUnavailable, err)
	case err != nil:
		return nil, fmt.Errorf("dialing %q: %w: %w", path, ErrUntrusted, err)
	}
	conn, err := connect(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("dialing %q: %w: %w", path, ErrUnavailable, err)
	}
	if err := checkListener(conn, wantUID); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("dialing %q: %w: %w", path, ErrUntrusted, err)
	}
	return conn, nil
}

// listenerOf asks the kernel whose the listening end is.
func listenerOf(conn *net.UnixConn) (*unix.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	ctlErr := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(ctlErr, err); err != nil {
		return nil, fmt.Errorf("reading SO_PEERCRED: %w", err)
	}
	return cred, nil
}

func checkListener(conn *net.UnixConn, wantUID uint32) error {
	cred, err := listenerOf(conn)
	if err != nil {
		return err
	}
	if cred.Uid != wantUID && cred.Uid != 0 {
		return fmt.Errorf("uid %d listens there, want %d or root; stop that process, or set the broker's uid", cred.Uid, wantUID)
	}
	return nil
}
