package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/safepath"
)

// backlog is how many connections may wait for Accept; the kernel has a bound of
// its own (net.core.somaxconn).
const backlog = 4096

// Access is how open the path of an inherited socket may be.
type Access struct {
	Perm fs.FileMode // no permission beyond these
	GID  uint32      // whose the group's permissions are; NoUID: anybody's
}

// Inherit makes a listener of a socket that a service manager listens on at path.
// It owns f from then on, also on error.
//
// It listens a second time. The kernel tells a client whose pid and uid the last
// listen had, and that is to be the broker's, not the service manager's. What
// connected before is told of the service manager, which is root's.
func Inherit(f *os.File, path string, a Access) (*Listener, error) {
	defer f.Close()
	k, err := kernel()
	if err != nil {
		return nil, err
	}
	if err := checkPath(path); err != nil {
		return nil, err
	}
	if err := a.check(path); err != nil {
		return nil, err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("inheriting socket %q: %w", path, err)
	}
	ctlErr := raw.Control(func(fd uintptr) {
		if err = options(k, int(fd)); err == nil {
			err = unix.Listen(int(fd), backlog)
		}
	})
	if err = errors.Join(ctlErr, err); err != nil {
		return nil, fmt.Errorf("inheriting socket %q: %w", path, err)
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("inheriting socket %q: %w", path, err)
	}
	ul, ok := l.(*net.UnixListener)
	if !ok {
		_ = l.Close()
		return nil, fmt.Errorf("inheriting socket %q: it is no unix socket", path)
	}
	own := newListener(k, ul)
	own.inherited = true
	return own, nil
}

// late sets the options of a connection that was perhaps made before those of
// its listener were set. What it has sent by then has no credentials and is
// refused, unless its listener's maker asked for them (PassCredentials=yes).
func late(k features, c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	ctlErr := raw.Control(func(fd uintptr) { err = options(k, int(fd)) })
	return errors.Join(ctlErr, err)
}

// check looks at the socket's path.
func (a Access) check(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return fmt.Errorf("looking at the inherited socket %q: %w", path, err)
	}
	perm := fs.FileMode(st.Mode) & fs.ModePerm
	const fix = "correct its .socket unit"
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFSOCK:
		return fmt.Errorf("inheriting socket %q: something else is at its path; %s", path, fix)
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("inheriting socket %q: it is owned by uid %d, want root; %s", path, st.Uid, fix)
	case perm&^a.Perm != 0:
		return fmt.Errorf("inheriting socket %q: its mode is %04o, and it may be %04o at most; %s", path, perm, a.Perm, fix)
	case a.GID != NoUID && perm&0o070 != 0 && st.Gid != a.GID:
		return fmt.Errorf("inheriting socket %q: its group is %d, want %d; %s", path, st.Gid, a.GID, fix)
	}
	return nil
}

// SetDeadline bounds the next waits of Accept, which then fails with
// os.ErrDeadlineExceeded and can be called again.
func (l *Listener) SetDeadline(t time.Time) error { return l.unix.SetDeadline(t) }

// Adopt makes a Process of a pidfd that was stored for us, if that is the process
// of which a store remembers pid, pidfs inode and start time, all of this boot,
// and if it lives. It owns f from then on, also on error.
func Adopt(f *os.File, pid int, inode, start uint64) (*Process, error) {
	defer f.Close()
	k, err := kernel()
	if err != nil {
		return nil, err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("adopting process %d: %w", pid, err)
	}
	own := -1
	ctlErr := raw.Control(func(fd uintptr) { own, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(ctlErr, err); err != nil {
		return nil, fmt.Errorf("adopting process %d: %w", pid, err)
	}
	p, err := adopt(k, own, pid)
	if err != nil {
		return nil, err
	}
	return p.remembered(inode, start)
}

// Reach connects to the socket at path and proves that this very process listens
// there and serves it: the kernel names us as the listener, and the connection is
// taken and, since nothing comes, ended.
func Reach(ctx context.Context, path string) error {
	euid := uint32(os.Geteuid()) // #nosec G115 -- the kernel's uids are 32 bits
	if err := safepath.Dir(filepath.Dir(path), euid); err != nil {
		return fmt.Errorf("reaching %q: %w", path, err)
	}
	conn, err := connect(ctx, path)
	if err != nil {
		return fmt.Errorf("reaching %q: %w", path, err)
	}
	defer func() { _ = conn.Close() }()
	cred, err := listenerOf(conn)
	if err != nil {
		return fmt.Errorf("reaching %q: %w", path, err)
	}
	if int(cred.Pid) != os.Getpid() || cred.Uid != euid {
		return fmt.Errorf("reaching %q: process %d of uid %d listens there, not this broker", path, cred.Pid, cred.Uid)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(past) })()
	if err := conn.CloseWrite(); err != nil {
		return fmt.Errorf("reaching %q: %w", path, err)
	}
	if n, err := io.Copy(io.Discard, io.LimitReader(conn, 1)); n != 0 || err != nil {
		return fmt.Errorf("reaching %q: it was not served: %w", path, errors.Join(context.Cause(ctx), err))
	}
	return nil
}
