//go:build system

package system

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/testproc"
)

// manager plays the service manager to the end: it listens, keeps descriptors,
// and hears what the broker tells.
type manager struct {
	t       testing.TB
	notify  *testproc.Notify
	sockets []*os.File
	kept    map[string]*os.File // by name, what the broker stored
	heard   []string
}

const notifySocket = "/run/guard-notify"

func newManager(t testing.TB) *manager {
	t.Helper()
	m := &manager{t: t, kept: map[string]*os.File{}}
	_ = os.Remove(notifySocket)
	m.notify = testproc.ListenNotify(t, notifySocket)
	run(t, "chmod", "0666", notifySocket)
	for _, path := range []string{"/run/guard/broker.sock", "/run/guard/operator.sock"} {
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		// As PassCredentials=yes does: who connects before the broker runs is heard.
		raw, err := l.(*net.UnixListener).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1) })
		if err != nil {
			t.Fatal(err)
		}
		f, err := l.(*net.UnixListener).File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close(); f.Close() })
		m.sockets = append(m.sockets, f)
	}
	openSockets(t)
	return m
}

// stopListening takes the sockets away, which nobody serves any more.
func (m *manager) stopListening() {
	for _, path := range []string{"/run/guard/broker.sock", "/run/guard/operator.sock"} {
		_ = os.Remove(path)
	}
}

// start starts the broker with the sockets and all that is kept.
func (m *manager) start(env ...string) *service {
	m.t.Helper()
	files, names := append([]*os.File{}, m.sockets...), []string{"guard-broker.socket", "guard-operator.socket"}
	for name, f := range m.kept {
		files, names = append(files, f), append(names, name)
	}
	script := `LISTEN_PID=$$ exec "$0" "$@"`
	s := &service{ended: make(chan error, 1), stderr: new(bytes.Buffer)}
	s.cmd = exec.Command("sh", append([]string{"-c", script}, append(asGuard, programs+"/guard-broker")...)...)
	s.cmd.Env = append([]string{"PATH=/usr/bin:/bin", "NOTIFY_SOCKET=" + notifySocket, fmt.Sprint("LISTEN_FDS=", len(files)), "LISTEN_FDNAMES=" + strings.Join(names, ":")}, env...)
	s.cmd.ExtraFiles, s.cmd.Stderr, s.cmd.Dir = files, s.stderr, "/"
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	m.t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	return s
}

// await listens until a message that begins so comes.
func (m *manager) await(prefix string, s *service) string {
	m.t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		text := m.next(time.Second)
		if strings.HasPrefix(text, prefix) {
			return text
		}
		if time.Now().After(end) || s.hasEnded() {
			m.t.Fatalf("the broker never told %s; it told %q, and wrote: %s", prefix, m.heard, s.stderr)
		}
	}
}

// next hears one message and does as it says; "" when none comes in time.
func (m *manager) next(within time.Duration) string {
	said, fds := m.notify.Next(within)
	if said == "" {
		return ""
	}
	m.heard = append(m.heard, said)
	name := ""
	for line := range strings.Lines(said) {
		if v, ok := strings.CutPrefix(line, "FDNAME="); ok {
			name = strings.TrimSpace(v)
		}
	}
	switch {
	case strings.HasPrefix(said, "FDSTORE=1"):
		if len(fds) == 1 && m.kept[name] == nil {
			m.kept[name] = os.NewFile(uintptr(fds[0]), name)
		}
	case strings.HasPrefix(said, "FDSTOREREMOVE=1"):
		delete(m.kept, name)
	}
	return said
}
