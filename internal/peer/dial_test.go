package peer

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/testproc"
)

func TestDial(t *testing.T) {
	b := newBench(t, mustKernel(t))
	conn, err := Dial(t.Context(), b.path, uint32(os.Geteuid()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	c := b.accept()
	if who, err := c.Authenticate(); err != nil || who.PID() != os.Getpid() {
		t.Errorf("the listener sees %d, %v", who.PID(), err)
	}
	if _, err := c.Write([]byte("answer")); err != nil {
		t.Error(err)
	}
	if got, err := read(conn); err != nil || got != "answer" {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestDialUnavailable(t *testing.T) {
	dir := testproc.New(t).Dir()
	stale := filepath.Join(dir, "stale")
	l, err := Listen(stale, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		path string
	}{
		{"no directory", t.Context(), filepath.Join(dir, "none", "s")},
		{"no socket", t.Context(), filepath.Join(dir, "none")},
		{"nobody listens", t.Context(), stale},
		{"context ended", ended, stale},
	} {
		if _, err := Dial(tt.ctx, tt.path, uint32(os.Geteuid())); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUntrusted) {
			t.Errorf("%s: %v, want ErrUnavailable", tt.name, err)
		}
	}
	if _, err := Dial(t.Context(), "s", uint32(os.Geteuid())); !errors.Is(err, ErrPath) {
		t.Errorf("relative path: %v, want ErrPath", err)
	}
}

// squat listens at path as another user, as far as this one may.
func squat(t *testing.T, path string) (uid uint32) {
	t.Helper()
	uid = uint32(os.Geteuid())
	if uid == 0 {
		uid = 65534
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		// The kernel stamps the credentials of the thread that calls listen; the
		// raw call changes this thread alone.
		as := func(euid uint32) {
			const keep = ^uintptr(0)
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(euid), keep); errno != 0 {
				t.Fatal(errno)
			}
		}
		defer as(0)
		defer func() { as(0); _ = os.Chown(path, 65534, -1) }()
		if err := os.Chmod(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		defer func() { as(0); _ = os.Chmod(filepath.Dir(path), 0o755) }()
		as(uid)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: path}), unix.Listen(fd, 8)); err != nil {
		t.Fatal(err)
	}
	return uid
}

func TestK2_SquattersAreNotTheBroker(t *testing.T) {
	t.Run("another user listens", func(t *testing.T) {
		path := filepath.Join(testproc.New(t).Dir(), "s")
		owner := squat(t, path)
		want := owner - 1 // neither the squatter nor root
		_, err := Dial(t.Context(), path, want)
		if !errors.Is(err, ErrUntrusted) {
			t.Errorf("Dial: %v, want ErrUntrusted", err)
		}
		// The directory alone may give it away; the listener does, too.
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if err := checkListener(conn.(*net.UnixConn), want); err == nil || !strings.Contains(err.Error(), "listens there") {
			t.Errorf("checkListener: %v", err)
		}
		if err := checkListener(conn.(*net.UnixConn), owner); err != nil {
			t.Errorf("checkListener of the owner: %v", err)
		}
	})
	for _, mode := range []os.FileMode{0o777, 0o777 | os.ModeSticky, 0o770} {
		t.Run("directory "+mode.String(), func(t *testing.T) {
			dir := filepath.Join(testproc.New(t).Dir(), "guard")
			if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, mode)); err != nil {
				t.Fatal(err)
			}
			l, err := Listen(filepath.Join(dir, "s"), 0o600)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			if _, err := Dial(t.Context(), filepath.Join(dir, "s"), uint32(os.Geteuid())); !errors.Is(err, ErrUntrusted) {
				t.Errorf("Dial: %v, want ErrUntrusted", err)
			}
		})
	}
}
