package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/clock"
)

// MaxPath is the most bytes of a socket path: sun_path less its closing NUL.
const MaxPath = len(unix.RawSockaddrUnix{}.Path) - 1

// Listener takes connections on a path.
type Listener struct {
	feat features
	unix *net.UnixListener
	// inherited: connections may have been made before the options were set
	inherited bool
	done      context.Context // ends at Close
	stop      context.CancelFunc
}

// Listen makes a socket at path with the given permissions. It removes nothing:
// the caller holds the broker's lock and has called RemoveStale. Options and
// permissions are set before anyone can connect.
func Listen(path string, perm os.FileMode) (*Listener, error) {
	k, err := kernel()
	if err != nil {
		return nil, err
	}
	return listen(k, path, perm)
}

func listen(k features, path string, perm os.FileMode) (*Listener, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		ctlErr := c.Control(func(fd uintptr) { err = prepare(k, int(fd), perm) })
		return errors.Join(ctlErr, err)
	}}
	l, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listening on %q: %w", path, err)
	}
	ul := l.(*net.UnixListener)
	ul.SetUnlinkOnClose(false) // by then the path may be a newer broker's
	// The umask may have taken permissions that were asked for.
	if err := os.Chmod(path, perm); err != nil {
		_ = ul.Close()
		return nil, fmt.Errorf("setting permissions of %q: %w", path, err)
	}
	return newListener(k, ul), nil
}

func newListener(k features, l *net.UnixListener) *Listener {
	done, stop := context.WithCancel(context.Background())
	return &Listener{feat: k, unix: l, done: done, stop: stop}
}

// prepare sets a socket up before it is bound.
func prepare(k features, fd int, perm os.FileMode) error {
	// A socket's own mode becomes that of its path, less the umask.
	if err := unix.Fchmod(fd, uint32(perm.Perm())); err != nil {
		return fmt.Errorf("setting permissions: %w", err)
	}
	return options(k, fd)
}

// options sets what a listener's connections inherit. SO_PASSPIDFD is left out on purpose: SCM_PIDFD names the same process as
// SCM_CREDENTIALS does, costs a descriptor for each message, and proves no more
// than the equal pid of a connector that is alive afterwards (see Conn.Read).
func options(k features, fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		return fmt.Errorf("setting SO_PASSCRED: %w", err)
	}
	if !k.passRights {
		return nil // Conn.Read leaves no room for descriptors and refuses them
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSRIGHTS, 0); err != nil {
		return fmt.Errorf("clearing SO_PASSRIGHTS: %w", err)
	}
	return nil
}

// checkPath refuses what the kernel would cut off, or take for something else
// than a file.
func checkPath(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("socket path %q isn't absolute: %w", path, ErrPath)
	}
	if len(path) > MaxPath {
		return fmt.Errorf("socket path %q has %d bytes, and the limit is %d: %w; set XDG_RUNTIME_DIR to a shorter directory",
			path, len(path), MaxPath, ErrPath)
	}
	return nil
}

// RemoveStale removes the socket that an earlier broker left at path. Only who
// holds the broker's lock may call it: a broker that is busy isn't dead. What is
// no socket, or isn't uid's, stays and is an error.
func RemoveStale(path string, uid uint32) error {
	if err := checkPath(path); err != nil {
		return err
	}
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return fmt.Errorf("looking at %q: %w", path, err)
	case st.Mode&unix.S_IFMT != unix.S_IFSOCK:
		return fmt.Errorf("removing stale socket %q: it is no socket; move it away", path)
	case st.Uid != uid:
		return fmt.Errorf("removing stale socket %q: it is owned by uid %d, want %d; remove it as its owner", path, st.Uid, uid)
	}
	if err := unix.Unlink(path); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("removing stale socket %q: %w", path, err)
	}
	return nil
}

// Waits after an accept for which there were no descriptors or memory.
const (
	minBackoff = 5 * time.Millisecond
	maxBackoff = time.Second
)

// Accept waits for a connection. It reads nothing of the peer, so that no peer
// can hold it up: Conn.Authenticate does that. Short of descriptors or memory it
// waits and goes on; after Close it answers net.ErrClosed.
func (l *Listener) Accept() (*Conn, error) {
	for wait := minBackoff; ; wait = min(2*wait, maxBackoff) {
		c, err := l.unix.AcceptUnix()
		if err == nil {
			conn := &Conn{sock: c, feat: l.feat}
			if l.inherited {
				if err := late(l.feat, c); err != nil {
					_ = c.Close()
					return nil, fmt.Errorf("accepting on %q: %w", l.unix.Addr(), err)
				}
			}
			if !l.feat.peerPidfd {
				conn.accepted = clock.System{}.Now()
			}
			return conn, nil
		}
		if !scarce(err) {
			return nil, fmt.Errorf("accepting on %q: %w", l.unix.Addr(), err)
		}
		if err := clock.Sleep(l.done, wait); err != nil {
			return nil, fmt.Errorf("accepting on %q: %w", l.unix.Addr(), net.ErrClosed)
		}
	}
}

// scarce says whether an error of accept passes by itself.
func scarce(err error) bool {
	for _, passing := range []error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.ECONNABORTED} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

// Crowd bounds how many connections may wait for Accept. It listens once more,
// which changes nothing else. Who finds no place waits in connect, and each place
// that becomes free is offered to one of them: with few places, soon.
func (l *Listener) Crowd(most int) error {
	raw, err := l.unix.SyscallConn()
	if err != nil {
		return fmt.Errorf("bounding who waits at %q: %w", l.unix.Addr(), err)
	}
	ctlErr := raw.Control(func(fd uintptr) { err = unix.Listen(int(fd), most) })
	if err = errors.Join(ctlErr, err); err != nil {
		return fmt.Errorf("bounding who waits at %q: %w", l.unix.Addr(), err)
	}
	return nil
}

// Close ends Accept. The path stays: the lock, not the file, says whether a
// broker runs.
func (l *Listener) Close() error {
	l.stop()
	return l.unix.Close()
}
