package gate

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"leaseguard.internal/internal/verdict"
)

// TestK2_DirectoryOfAnother: a socket where others could have put it is not
// even dialled.
func TestK2_DirectoryOfAnother(t *testing.T) {
	root := os.Getuid() == 0
	for _, tc := range []struct {
		name  string
		want  string // in the reason; empty: trusted
		setUp func(t *testing.T, dir string) (socketDir string)
	}{
		{"mode 0700", "", func(_ *testing.T, dir string) string { return dir }},
		{"mode 0755", "", func(t *testing.T, dir string) string { return chmod(t, dir, 0o755) }},
		{"world-writable", "mode 40777", func(t *testing.T, dir string) string { return chmod(t, dir, 0o777) }},
		{"world-writable and sticky", "mode 41777", func(t *testing.T, dir string) string { return chmod(t, dir, 0o777|os.ModeSticky) }},
		{"group-writable", "mode 40775", func(t *testing.T, dir string) string { return chmod(t, dir, 0o775) }},
		{"mode 0750", "mode 40750", func(t *testing.T, dir string) string { return chmod(t, dir, 0o750) }},
		{"symlinked directory", "a link", func(t *testing.T, dir string) string {
			return symlink(t, filepath.Join(dir, "real"), filepath.Join(dir, "link"))
		}},
		{"symlinked parent", "a link", func(t *testing.T, dir string) string {
			link := symlink(t, filepath.Join(dir, "real"), filepath.Join(dir, "link"))
			return mkdir(t, filepath.Join(link, "below"))
		}},
		{"link hidden by a double slash", "a link", func(t *testing.T, dir string) string {
			return symlink(t, filepath.Join(dir, "real"), filepath.Join(dir, "link")) + "/"
		}},
		{"link hidden by a dot", "a link", func(t *testing.T, dir string) string {
			return symlink(t, filepath.Join(dir, "real"), filepath.Join(dir, "link")) + "/."
		}},
		{"world-writable parent", "mode 40777", func(t *testing.T, dir string) string {
			return mkdir(t, filepath.Join(chmod(t, dir, 0o777), "below"))
		}},
		{"file in the way", "a link", func(t *testing.T, dir string) string {
			if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(dir, "file")
		}},
		{"owned by another", "owner 65534", func(t *testing.T, dir string) string { return chown(t, dir) }},
		{"parent owned by another", "owner 65534", func(t *testing.T, dir string) string {
			return mkdir(t, filepath.Join(chown(t, dir), "below"))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if strings.Contains(tc.name, "owned by") && !root {
				t.Skip("only root can give a directory away")
			}
			dir := tc.setUp(t, private(t))
			c := call{socket: dir + "/b.sock", uid: int64(os.Getuid())}
			switch got := checkSocket(c); {
			case tc.want == "" && got != "":
				t.Errorf("refused: %s", got)
			case tc.want != "" && (!strings.Contains(got, tc.want) || !strings.HasPrefix(got, "guard: broker_untrusted: ") || !strings.Contains(got, "XDG_RUNTIME_DIR")):
				t.Errorf("got %q, want broker_untrusted with %q and XDG_RUNTIME_DIR", got, tc.want)
			}
			if tc.want != "" && !strings.Contains(tc.name, "file") {
				l, err := net.Listen("unix", filepath.Join(dir, "b.sock"))
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = l.Close() }()
				wantDeny(t, runHook(t, hook(c.socket, "decide", "--deadline", "3"), payload), verdict.BrokerUntrusted)
			}
		})
	}
}

func TestDirectoryOfTheBrokersUID(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	dir := chown(t, private(t))
	if got := checkSocket(call{socket: dir + "/b.sock", uid: 65534}); got != "" {
		t.Errorf("a directory of the broker's uid is refused: %s", got)
	}
}

func chmod(t *testing.T, dir string, mode os.FileMode) string {
	t.Helper()
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	return dir
}

func mkdir(t *testing.T, dir string) string {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func symlink(t *testing.T, dir, link string) string {
	t.Helper()
	if err := os.Symlink(mkdir(t, dir), link); err != nil {
		t.Fatal(err)
	}
	return link
}

func chown(t *testing.T, dir string) string {
	t.Helper()
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Somebody else's process listens on a socket in a directory that is right.
func TestImpostorListens(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can listen as another uid")
	}
	socket := filepath.Join(private(t), "broker.sock")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(fd) }()
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: socket}); err != nil {
		t.Fatal(err)
	}
	// The kernel stamps who calls listen; only this thread becomes another.
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and stays locked: the thread dies with the goroutine
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, 65534, 65534, 65534); e != 0 {
			done <- e
			return
		}
		done <- syscall.Listen(fd, 8)
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	reason := wantDeny(t, runHook(t, hook(socket, "decide", "--deadline", "3"), payload), verdict.BrokerUntrusted)
	if !strings.Contains(reason, "its uid is neither 0 nor 0") {
		t.Errorf("reason %q", reason)
	}
	if got := runHook(t, hook(socket, "observe"), payload); got != (result{}) {
		t.Errorf("observe: got %v, want silence", got)
	}
}

// A broker that runs as root is good for every --broker-uid, its directory too.
func TestRootIsGoodForEveryUID(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs a listener of root's")
	}
	b := serve(t, answerReply(pass))
	cmd := hook(b.socket, "decide")
	cmd.Args[5] = "12345"
	if got := runHook(t, cmd, payload); got != (result{out: "{}"}) {
		t.Errorf("got %v", got)
	}
}

// TestK1_SocketPathLimit: 107 bytes work; above, the reason names path, length
// and limit, and nothing is dialled, the cut-off path least of all.
func TestK1_SocketPathLimit(t *testing.T) {
	for _, length := range []int{106, 107, 108, 200} {
		dir := private(t)
		name := "é" + strings.Repeat("s", length-len(dir)-len("/é"))
		path := filepath.Join(dir, name)
		if len(path) != length {
			t.Fatalf("path has %d bytes, want %d", len(path), length)
		}
		cut := path[:min(length, 107)]
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: cut, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		asked := make(chan struct{})
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					close(asked)
					return
				}
				asked <- struct{}{}
				_ = conn.Close()
			}
		}()
		got := make(chan result, 1)
		go func() { got <- runHook(t, hook(path, "decide"), payload) }()
		dialled := false
		select {
		case <-asked:
			dialled = true
			<-got
		case r := <-got:
			reason := wantDeny(t, r, verdict.BrokerUnavailable)
			if !strings.Contains(reason, digits(int64(length), 10)+" bytes") || !strings.Contains(reason, "at most 107") || !strings.Contains(reason, dir) {
				t.Errorf("%d bytes: reason %q", length, reason)
			}
		}
		if dialled != (length <= 107) {
			t.Errorf("%d bytes: dialled %v", length, dialled)
		}
		_ = l.Close()
		<-asked
	}
}
