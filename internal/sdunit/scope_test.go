package sdunit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/tree"
)

// realManager asks the service manager of this machine where it is set to
// "system": then the tests of scopes run against it, and not against a fake.
//
//	go test -c -o sdunit.test ./internal/sdunit
//	GUARD_TEST_SYSTEMD=system ./sdunit.test -test.run '^TestScope'
const realManager = "GUARD_TEST_SYSTEMD"

// fakeManager is org.freedesktop.systemd1 on a bus of the test's own. As root it
// really makes a cgroup for a scope, below the one that the test is in.
type fakeManager struct {
	t    *testing.T
	conn *dbus.Conn
	wire *fdConn

	mu     sync.Mutex
	old    bool   // knows no PIDFDs
	hangs  bool   // never tells that a job has ended
	result string // of a job
	moves  int    // another process than the one that it was given
	jobs   uint32
	got    []started
}

// started is one scope as the manager was asked for it.
type started struct {
	unit, mode, slice string
	by                string
	pids              []int
}

const (
	managerName = "org.freedesktop.systemd1"
	managerPath = "/org/freedesktop/systemd1"
	managerFace = "org.freedesktop.systemd1.Manager"
)

// property and auxiliary are the arguments of StartTransientUnit.
type (
	property struct {
		Name  string
		Value dbus.Variant
	}
	auxiliary struct {
		Name       string
		Properties []property
	}
)

// StartTransientUnit is the manager's method.
func (m *fakeManager) StartTransientUnit(unit, mode string, props []property, _ []auxiliary) (dbus.ObjectPath, *dbus.Error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := started{unit: unit, mode: mode}
	for _, prop := range props {
		name := prop.Name
		switch v := prop.Value.Value().(type) {
		case []dbus.UnixFDIndex:
			for range v {
				fd := m.wire.next()
				s.pids = append(s.pids, pidOf(fd))
				_ = unix.Close(fd)
			}
			s.by = name
		case []uint32:
			for _, pid := range v {
				s.pids = append(s.pids, int(pid))
			}
			s.by = name
		case string:
			if name == "Slice" {
				s.slice = v
			}
		}
	}
	if len(m.got) > 0 && m.got[len(m.got)-1].unit == unit {
		return "", dbus.NewError("org.freedesktop.systemd1.UnitExists", []any{"Unit was already loaded."})
	}
	if m.old && s.by == "PIDFDs" {
		return "", dbus.NewError("org.freedesktop.DBus.Error.PropertyReadOnly", []any{"Cannot set property PIDFDs, or unknown property."})
	}
	m.got = append(m.got, s)
	m.enclose(s)
	m.jobs++
	job := dbus.ObjectPath(fmt.Sprintf("%s/job/%d", managerPath, m.jobs))
	if !m.hangs {
		if err := m.conn.Emit(managerPath, managerFace+".JobRemoved", m.jobs, job, unit, m.result); err != nil {
			m.t.Error(err)
		}
	}
	return job, nil
}

func (m *fakeManager) asked() []started {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.got)
}

// enclose makes the scope's cgroup and moves its processes there.
func (m *fakeManager) enclose(s started) {
	if testproc.CgroupDir(m.t) == "" || m.result != "done" {
		return
	}
	if m.moves != 0 {
		s.pids = []int{m.moves}
	}
	testproc.Cgroup(m.t, s.unit, s.pids...)
}

func pidOf(pidfd int) (pid int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", pidfd))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if n, err := fmt.Sscanf(line, "Pid:\t%d", &pid); n == 1 && err == nil {
			return pid
		}
	}
	return 0
}

// fdConn is the manager's end of its connection. The library can't decode
// descriptors that lie as deep as these, so they are taken out here.
type fdConn struct {
	*net.UnixConn
	mu  sync.Mutex
	fds []int
}

// Read reads, and keeps the descriptors that come along.
func (c *fdConn) Read(p []byte) (int, error) {
	oob := make([]byte, 256)
	n, oobn, _, _, err := c.ReadMsgUnix(p, oob)
	if msgs, parseErr := unix.ParseSocketControlMessage(oob[:oobn]); parseErr == nil {
		for _, msg := range msgs {
			fds, _ := unix.ParseUnixRights(&msg)
			c.mu.Lock()
			c.fds = append(c.fds, fds...)
			c.mu.Unlock()
		}
	}
	return n, err
}

// Write writes, and before the end of the greeting agrees on descriptors.
func (c *fdConn) Write(p []byte) (int, error) {
	if string(p) == "BEGIN\r\n" {
		if _, err := c.UnixConn.Write([]byte("NEGOTIATE_UNIX_FD\r\n")); err != nil {
			return 0, err
		}
		for b := []byte{0}; b[0] != '\n'; {
			if _, err := c.UnixConn.Read(b); err != nil {
				return 0, err
			}
		}
	}
	return c.UnixConn.Write(p)
}

func (c *fdConn) next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.fds) == 0 {
		return -1
	}
	fd := c.fds[0]
	c.fds = c.fds[1:]
	return fd
}

const busConfig = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path=%s</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`

// startBus starts a bus of the test's own and returns its socket.
func startBus(t *testing.T) string {
	t.Helper()
	daemon, err := exec.LookPath("dbus-daemon")
	if err != nil {
		testproc.Lacks(t, err.Error())
	}
	dir, err := os.MkdirTemp("", "bus") // t.TempDir can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket, config := filepath.Join(dir, "s"), filepath.Join(dir, "c")
	if err := os.WriteFile(config, []byte(fmt.Sprintf(busConfig, socket)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(daemon, "--config-file="+config, "--nofork", "--nopidfile")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	deadline := time.Now().Add(20 * time.Second)
	for {
		if conn, err := net.Dial("unix", socket); err == nil {
			_ = conn.Close()
			return socket
		}
		if time.Now().After(deadline) {
			t.Fatal("the bus doesn't start")
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// newManager starts a fake manager on a bus, and returns what asks it.
func newManager(t *testing.T) (*fakeManager, *Scopes) {
	t.Helper()
	socket := startBus(t)
	m := &fakeManager{t: t, result: "done"}
	sock, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: socket})
	if err != nil {
		t.Fatal(err)
	}
	m.wire = &fdConn{UnixConn: sock}
	conn, err := dbus.NewConn(m.wire)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	m.conn = conn
	if err := errors.Join(conn.Auth(nil), conn.Hello()); err != nil {
		t.Fatal(err)
	}
	if err := conn.Export(m, managerPath, managerFace); err != nil {
		t.Fatal(err)
	}
	if reply, err := conn.RequestName(managerName, dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		t.Fatalf("taking the manager's name: %v, %v", reply, err)
	}
	s := &Scopes{places: []place{{address: unixAddress(socket), bus: true}}}
	t.Cleanup(s.Close)
	return m, s
}

// scopeOf describes a scope around a new process that sleeps.
func scopeOf(t *testing.T) (Scope, *peer.Process) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := peer.Open(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); _ = p.Close() })
	return Scope{
		Unit: fmt.Sprintf("guard-session-%016x-1.scope", time.Now().UnixNano()), Description: "a test of leaseguard",
		PID: p.PID(), PIDFD: p.Fd(),
	}, p
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// The process is where the manager was asked to put it, and nobody but root can
// take it out. Against a real systemd too.
func TestScopeStart(t *testing.T) {
	for _, old := range []bool{false, true} {
		t.Run(fmt.Sprint("old ", old), func(t *testing.T) {
			scope, p := scopeOf(t)
			var scopes *Scopes
			var fake *fakeManager
			if os.Getenv(realManager) == "system" {
				scopes = SystemScopes()
				t.Cleanup(scopes.Close)
			} else {
				fake, scopes = newManager(t)
				fake.old, scope.Slice = old, "user-1000.slice"
			}
			if err := scopes.Start(within(t, 20*time.Second), scope); err != nil {
				t.Fatal(err)
			}
			if fake != nil {
				by := map[bool]string{false: "PIDFDs", true: "PIDs"}[old]
				want := []started{{unit: scope.Unit, mode: "fail", slice: scope.Slice, by: by, pids: []int{p.PID()}}}
				if got := fake.asked(); !reflect.DeepEqual(got, want) {
					t.Errorf("the manager was asked for %+v, want %+v", got, want)
				}
				if testproc.CgroupDir(t) == "" {
					return // it could make no cgroup
				}
			}
			c, err := tree.CgroupOf(p, scope.Unit)
			if err != nil || !c.Root {
				t.Fatalf("cgroup %+v, %v", c, err)
			}
			second, _ := scopeOf(t)
			second.Unit = scope.Unit
			if err := scopes.Start(within(t, 20*time.Second), second); fake == nil && err == nil {
				t.Error("two processes got a scope of one name")
			}
			if out := tree.End(context.Background(), tree.Target{Cgroup: c})[0]; out.Killed != 1 && fake == nil || out.Left != 0 || out.Err != nil || p.Alive() {
				t.Errorf("ending the scope: %+v", out)
			}
		})
	}
}

// Each failure is an error within the caller's time, and none of them is a scope.
func TestScopeFailures(t *testing.T) {
	tests := []struct {
		name string
		set  func(*fakeManager)
		want string
	}{
		{"the job fails", func(m *fakeManager) { m.result = "failed" }, `the job ended as "failed"`},
		{"the job never ends", func(m *fakeManager) { m.hangs = true }, "waiting for the job: context deadline exceeded"},
		{"the manager is gone", func(m *fakeManager) { _, _ = m.conn.ReleaseName(managerName) }, "starting"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fake, scopes := newManager(t)
			tt.set(fake)
			scope, _ := scopeOf(t)
			if err := scopes.Start(within(t, time.Second), scope); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Start: %v, want %q", err, tt.want)
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		s := UserScopes(filepath.Join(t.TempDir(), "private"))
		if err := s.Connect(within(t, time.Second)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("Connect: %v", err)
		}
	})
	t.Run("who listens says nothing", func(t *testing.T) {
		l := silent(t)
		if err := UserScopes(l).Connect(within(t, 50*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Connect: %v", err)
		}
	})
}

// A manager that puts somebody else into the scope is found out by who looks
// where the process is.
func TestScopeOfAnotherProcess(t *testing.T) {
	if testproc.CgroupDir(t) == "" {
		testproc.Lacks(t, "needs root and cgroup version 2")
	}
	fake, scopes := newManager(t)
	_, other := scopeOf(t)
	fake.moves = other.PID()
	scope, p := scopeOf(t)
	if err := scopes.Start(within(t, 20*time.Second), scope); err != nil {
		t.Fatal(err)
	}
	if c, err := tree.CgroupOf(p, scope.Unit); err == nil {
		t.Errorf("it is in %+v", c)
	}
}

// A bus that was restarted is connected to again.
func TestScopeReconnects(t *testing.T) {
	_, scopes := newManager(t)
	if err := scopes.Connect(within(t, 20*time.Second)); err != nil {
		t.Fatal(err)
	}
	first := scopes.conn
	first.Close()
	if err := scopes.Connect(within(t, 20*time.Second)); err != nil || scopes.conn == first {
		t.Errorf("Connect: %v, the same connection: %v", err, scopes.conn == first)
	}
}

// silent is a socket on which nobody answers.
func silent(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bus")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return filepath.Join(dir, "s")
}
