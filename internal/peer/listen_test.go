package peer

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/testproc"
)

// pathOf makes a path of n bytes in a directory that exists.
func pathOf(t *testing.T, n int) string {
	t.Helper()
	dir := filepath.Join(testproc.New(t).Dir(), "é") // two bytes: the limit counts bytes
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, strings.Repeat("s", n-len(dir)-1))
}

func TestK1_SocketPathLimit(t *testing.T) {
	for _, tt := range []struct {
		bytes int
		fits  bool
	}{{106, true}, {107, true}, {108, false}, {200, false}} {
		path := pathOf(t, tt.bytes)
		if len(path) != tt.bytes {
			t.Fatalf("the path has %d bytes, want %d", len(path), tt.bytes)
		}
		l, err := Listen(path, 0o600)
		if tt.fits {
			if err != nil {
				t.Errorf("%d bytes: %v", tt.bytes, err)
				continue
			}
			conn, err := Dial(t.Context(), path, uint32(os.Geteuid()))
			if err != nil {
				t.Errorf("%d bytes: %v", tt.bytes, err)
			} else {
				_ = conn.Close()
			}
			_ = l.Close()
			continue
		}
		_, dialErr := Dial(t.Context(), path, uint32(os.Geteuid()))
		staleErr := RemoveStale(path, uint32(os.Geteuid()))
		for _, err := range []error{err, dialErr, staleErr} {
			if !errors.Is(err, ErrPath) {
				t.Errorf("%d bytes: %v, want ErrPath", tt.bytes, err)
				continue
			}
			// %q leaves printable letters of other scripts as they are.
			for _, part := range []string{path, "bytes", "limit is 107"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%d bytes: error %q lacks %q", tt.bytes, err, part)
				}
			}
		}
		// A path that was cut off would be somebody else's socket.
		if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 0 {
			t.Errorf("%d bytes: %d files were made", tt.bytes, len(entries))
		}
	}
}

func TestListenPaths(t *testing.T) {
	for _, path := range []string{"", "s", "./s", "@abstract", "\x00abstract"} {
		if _, err := Listen(path, 0o600); !errors.Is(err, ErrPath) {
			t.Errorf("Listen(%q): %v, want ErrPath", path, err)
		}
	}
	path := filepath.Join(testproc.New(t).Dir(), "file")
	if err := os.WriteFile(path, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path, 0o600); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("Listen on a file: %v, want EADDRINUSE", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "kept" {
		t.Errorf("the file now: %q, %v", data, err)
	}
}

func TestListenPermissions(t *testing.T) {
	for _, perm := range []os.FileMode{0o600, 0o660, 0o666} {
		path := filepath.Join(testproc.New(t).Dir(), "s")
		l, err := Listen(path, perm)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != os.ModeSocket|perm {
			t.Errorf("mode %v, want socket with %v (%v)", info.Mode(), perm, err)
		}
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("after Close the path is gone: %v", err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept after Close: %v, want ErrClosed", err)
		}
	}
}

func TestRemoveStale(t *testing.T) {
	me := uint32(os.Geteuid())
	socket := func(t *testing.T, path string) {
		l, err := Listen(path, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
	}
	file := func(t *testing.T, path string) {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(t *testing.T, path string) {
		socket(t, path+".target")
		if err := os.Symlink(path+".target", path); err != nil {
			t.Fatal(err)
		}
	}
	dir := func(t *testing.T, path string) {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		make func(*testing.T, string)
		uid  uint32
		gone bool
	}{
		{"nothing", func(*testing.T, string) {}, me, true},
		{"socket", socket, me, true},
		{"socket of another", socket, me + 1, false},
		{"file", file, me, false},
		{"link to a socket", link, me, false},
		{"directory", dir, me, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(testproc.New(t).Dir(), "s")
			tt.make(t, path)
			err := RemoveStale(path, tt.uid)
			_, statErr := os.Lstat(path)
			if (err == nil) != tt.gone || errors.Is(statErr, os.ErrNotExist) != tt.gone {
				t.Errorf("RemoveStale = %v; the path: %v", err, statErr)
			}
		})
	}
}

func TestAcceptOutlastsScarcity(t *testing.T) {
	b := newBench(t, mustKernel(t))
	client := b.Start()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	free, err := unix.Dup(0) // the number that an accept would get
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(free)
	scant := limit
	scant.Cur = uint64(free)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &scant); err != nil {
		t.Fatal(err)
	}
	restore := func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) }
	t.Cleanup(restore)
	client.Connect(b.path)
	if _, err := b.l.unix.AcceptUnix(); !errors.Is(err, unix.EMFILE) || !scarce(err) {
		t.Fatalf("accept without descriptors: %v, want EMFILE", err)
	}
	accepted := make(chan error)
	go func() {
		c, err := b.l.Accept()
		if err == nil {
			_ = c.Close()
		}
		accepted <- err
	}()
	restore()
	if err := <-accepted; err != nil {
		t.Errorf("Accept: %v", err)
	}
}

func TestCloseEndsBackoff(t *testing.T) {
	b := newBench(t, mustKernel(t))
	_ = b.l.Close()
	if scarce(net.ErrClosed) || scarce(unix.EBADF) {
		t.Error("a closed listener counts as scarcity")
	}
	if _, err := b.l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v, want ErrClosed", err)
	}
}
