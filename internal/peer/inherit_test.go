package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/testproc"
)

// playsBroker makes this binary a broker that was started with a socket as
// descriptor 3, at the path that the variable holds.
const playsBroker = "PEER_PLAYS_BROKER"

// playBroker inherits the socket, says so, and ends with its stdin.
func playBroker() int {
	l, err := Inherit(os.NewFile(3, "socket"), os.Getenv(playsBroker), Access{Perm: 0o666, GID: NoUID})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = l.Close() }()
	fmt.Println("up")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// socket listens as a service manager does, and returns a duplicate to pass on.
func socket(t *testing.T, perm os.FileMode) (path string, f *os.File) {
	t.Helper()
	path = filepath.Join(testproc.New(t).Dir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if err := os.Chmod(path, perm); err != nil {
		t.Fatal(err)
	}
	if f, err = l.(*net.UnixListener).File(); err != nil {
		t.Fatal(err)
	}
	return path, f
}

// listenerPID is who listens at path, as the kernel tells a client.
func listenerPID(t *testing.T, path string) int {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	cred, err := listenerOf(conn.(*net.UnixConn))
	if err != nil {
		t.Fatal(err)
	}
	return int(cred.Pid)
}

// The kernel stamps who called listen last: that has to be the broker, and not
// who made the socket for it.
func TestD1_InheritedSocketNamesTheBroker(t *testing.T) {
	path, f := socket(t, 0o600)
	defer func() { _ = f.Close() }()
	if pid := listenerPID(t, path); pid != os.Getpid() {
		t.Fatalf("before: process %d listens, want this one", pid)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env, cmd.ExtraFiles = append(os.Environ(), playsBroker+"="+path), []*os.File{f}
	in, out := testproc.Piped(t, cmd)
	defer func() { _, _ = in.Close(), cmd.Wait() }()
	said := make([]byte, 200)
	if n, _ := out.Read(said); strings.TrimSpace(string(said[:n])) != "up" {
		t.Fatalf("the broker said %q", said[:n])
	}
	if pid := listenerPID(t, path); pid != cmd.Process.Pid {
		t.Errorf("after: process %d listens, want the broker, %d", pid, cmd.Process.Pid)
	}
	if err := Reach(t.Context(), path); err == nil || !strings.Contains(err.Error(), "not this broker") {
		t.Errorf("reaching another's socket: %v", err)
	}
}

// What an inherited listener accepts is as good as what an own one does.
func TestInheritedConnections(t *testing.T) {
	path, f := socket(t, 0o600)
	l, err := Inherit(f, path, Access{Perm: 0o600, GID: NoUID})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	p := testproc.New(t).Start()
	p.Connect(path)
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if who, err := c.Authenticate(); err != nil || who.PID() != p.PID {
		t.Fatalf("Authenticate: pid %d, %v; want %d", who.PID(), err, p.PID)
	}
	p.Write("hello")
	if text, err := read(c); err != nil || text != "hello" {
		t.Errorf("read %q, %v", text, err)
	}
	if p.WriteWithFile("with a file") != nil {
		return // the kernel refuses it at once, since the options are set
	}
	if text, err := read(c); err == nil {
		t.Errorf("read %q that came with an open file", text)
	}
}

func TestInheritRefuses(t *testing.T) {
	gid := uint32(os.Getegid())
	for _, tt := range []struct {
		name string
		mode os.FileMode
		a    Access
		want string
	}{
		{"as open as it may be", 0o660, Access{0o660, gid}, ""},
		{"less open", 0o600, Access{0o660, gid + 1}, ""},
		{"open to others", 0o666, Access{0o660, gid}, "0666"},
		{"open to others to read", 0o664, Access{0o660, gid}, "0664"},
		{"for another group", 0o660, Access{0o660, gid + 1}, "its group is"},
		{"a program", 0o700, Access{0o660, NoUID}, "0700"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path, f := socket(t, tt.mode)
			l, err := Inherit(f, path, tt.a)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				_ = l.Close()
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Fatalf("error %v lacks %q or the path", err, tt.want)
			}
		})
	}
	path, f := socket(t, 0o600)
	if err := os.Rename(path, path+"2"); err != nil {
		t.Fatal(err)
	}
	if _, err := Inherit(f, path, Access{Perm: 0o600, GID: NoUID}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing at the path: %v", err)
	}
}

// A deadline ends a wait for connections, and the next one works.
func TestAcceptDeadline(t *testing.T) {
	k, err := kernel()
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, k)
	if err := b.l.SetDeadline(past); err != nil {
		t.Fatal(err)
	}
	if _, err := b.l.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("Accept after its deadline: %v", err)
	}
	if err := b.l.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	b.client()
}

func TestReach(t *testing.T) {
	k, err := kernel()
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, k)
	served := make(chan error, 1)
	go func() {
		c, err := b.l.Accept()
		if err == nil {
			_, err = c.Authenticate()
			_ = c.Close()
		}
		served <- err
	}()
	if err := Reach(t.Context(), b.path); err != nil {
		t.Errorf("reaching ourselves: %v", err)
	}
	if err := <-served; err != nil {
		t.Errorf("serving it: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Reach(ctx, b.path); err == nil {
		t.Error("reached a socket that nobody serves")
	}
}

// A pidfd that was kept for us is held against what is remembered of the process.
func TestAdopt(t *testing.T) {
	zoo := testproc.New(t)
	p := zoo.Start()
	held, err := Open(p.PID)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	kept := func() *os.File {
		fd, err := unix.FcntlInt(uintptr(held.Fd()), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return os.NewFile(uintptr(fd), "kept")
	}
	inode, start := held.Inode(), held.StartTime()
	again, err := Adopt(kept(), p.PID, inode, start)
	if err != nil {
		t.Fatal(err)
	}
	if !again.ID().Same(held.ID()) || !again.Alive() {
		t.Errorf("adopted %v, want %v, alive", again.ID(), held.ID())
	}
	_ = again.Close()
	for name, f := range map[string]func() (*Process, error){
		"another pid":   func() (*Process, error) { return Adopt(kept(), os.Getpid(), inode, start) },
		"another inode": func() (*Process, error) { return Adopt(kept(), p.PID, inode+1, start) },
		"another start": func() (*Process, error) { return Adopt(kept(), p.PID, inode, start+1) },
		"no start":      func() (*Process, error) { return Adopt(kept(), p.PID, inode, 0) },
		"no pidfd": func() (*Process, error) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = w.Close() }()
			return Adopt(r, p.PID, inode, start)
		},
	} {
		if got, err := f(); err == nil {
			t.Errorf("%s: adopted %v", name, got.ID())
		}
	}
	p.Kill()
	if _, err := Adopt(kept(), p.PID, inode, start); err == nil {
		t.Error("adopted a process that has ended")
	}
}
