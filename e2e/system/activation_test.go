//go:build system

package system

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// service is a broker of system mode that something else than systemd starts.
type service struct {
	cmd    *exec.Cmd
	stderr *bytes.Buffer
	ended  chan error
}

// asGuard is how the broker's program is started under its own uid, with the one
// capability that its unit leaves it.
var asGuard = []string{"setpriv", "--reuid=guard", "--regid=guard", "--clear-groups", "--no-new-privs",
	"--bounding-set=-all,+kill", "--inh-caps=-all,+kill", "--ambient-caps=-all,+kill"}

// serve starts a command that becomes the broker.
func serve(t testing.TB, args []string, env ...string) *service {
	t.Helper()
	s := &service{stderr: new(bytes.Buffer), ended: make(chan error, 1)}
	s.cmd = exec.Command(args[0], args[1:]...)
	s.cmd.Env, s.cmd.Stderr, s.cmd.Dir = append([]string{"PATH=/usr/bin:/bin"}, env...), s.stderr, "/"
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	return s
}

// activate has systemd's own tool listen and become the broker at the first
// connection. names are LISTEN_FDNAMES; without any there is none.
func activate(t testing.TB, names ...string) *service {
	t.Helper()
	args := []string{"systemd-socket-activate"}
	for _, n := range names {
		args = append(args, "--fdname="+n)
	}
	args = append(append(args, "--listen=/run/guard/broker.sock", "--listen=/run/guard/operator.sock"), asGuard...)
	s := serve(t, append(args, programs+"/guard-broker"))
	openSockets(t)
	return s
}

// openSockets gives the sockets the owners and modes that their units give them.
func openSockets(t testing.TB) {
	t.Helper()
	for name, owner := range map[string][2]string{"broker.sock": {"root:root", "0666"}, "operator.sock": {"root:guard-operators", "0660"}} {
		path := filepath.Join("/run/guard", name)
		await(t, "socket "+path, func() bool { _, err := os.Lstat(path); return err == nil })
		run(t, "chown", owner[0], path)
		run(t, "chmod", owner[1], path)
	}
}

// wake makes the first connection and waits until the broker itself listens.
func (s *service) wake(t testing.TB) {
	t.Helper()
	await(t, "the broker", func() bool { return s.serves() || s.hasEnded() })
	if s.hasEnded() {
		t.Fatalf("the broker ended: %s", s.stderr)
	}
}

// serves says whether the operators' socket leads to this very process, which
// answers there.
func (s *service) serves() bool {
	out, err := exec.Command(programs+"/guard", "status", "--json").Output()
	pid := regexp.MustCompile(`"pid": *(\d+)`).FindSubmatch(out)
	return err == nil && pid != nil && string(pid[1]) == fmt.Sprint(s.cmd.Process.Pid)
}

func (s *service) hasEnded() bool {
	select {
	case err := <-s.ended:
		s.ended <- err
		return true
	default:
		return false
	}
}

// refuses wants the broker to end by itself, and to say why.
func (s *service) refuses(t testing.TB, why string) {
	t.Helper()
	select {
	case err := <-s.ended:
		if err == nil || !strings.Contains(s.stderr.String(), why) {
			t.Errorf("the broker ended with %v and said %q, want %q", err, s.stderr, why)
		}
	case <-time.After(20 * time.Second):
		t.Errorf("the broker runs, want it to refuse: %s", why)
	}
}

// terminate ends the broker as a service manager does.
func (s *service) terminate(t testing.TB) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-s.ended:
		if err != nil {
			t.Errorf("the broker ended with %v: %s", err, s.stderr)
		}
	case <-time.After(5 * time.Second):
		t.Errorf("the broker runs on 5 s after SIGTERM: %s", s.stderr)
	}
}

// machine sets system mode up with nothing to protect.
func machine(t testing.TB) {
	t.Helper()
	bare(t)
	run(t, programs+"/guard", "init", "--system", "--self", "none")
	people(t)
}

// The broker serves what systemd listens on, whatever the descriptors are called,
// and the kernel names it and not who made the sockets.
func TestD1_ActivatedBroker(t *testing.T) {
	for name, fdnames := range map[string][]string{"unnamed": nil, "named": {"a"}} {
		t.Run(name, func(t *testing.T) {
			machine(t)
			s := activate(t, fdnames...)
			s.wake(t)
			for _, path := range []string{"/run/guard/broker.sock", "/run/guard/operator.sock"} {
				if pid, uid := listener(t, path); pid != s.cmd.Process.Pid || fmt.Sprint(uid) != strings.TrimSpace(run(t, "id", "-u", "guard")) {
					t.Errorf("%s: process %d of uid %d listens, want the broker %d of guard", path, pid, uid, s.cmd.Process.Pid)
				}
			}
			a := launch(t, "ada")
			a.call(t, "Read", `{"file_path":"/srv/x"}`, "pass")
			a.call(t, "Write", `{"file_path":"/srv/x","content":""}`, "lease_unverified")
			operator(t, "approve", a.id)
			a.call(t, "Write", `{"file_path":"/srv/x","content":""}`, "pass")
			if left, said := a.do(t, `env | grep -e LISTEN_ -e NOTIFY_ -e WATCHDOG_ >&2`); left != "1" {
				t.Errorf("variables of the service manager in a session: %s", said)
			}
			s.terminate(t)
		})
	}
}

// listener is who listens at path, as the kernel tells a client.
func listener(t testing.TB, path string) (pid int, uid uint32) {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var cred *syscall.Ucred
	_ = raw.Control(func(fd uintptr) {
		cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err != nil {
		t.Fatal(err)
	}
	return int(cred.Pid), cred.Uid
}

// What isn't as the units make it is refused, and nothing is bound instead: there
// would be two listeners.
func TestD1_ActivatedOtherwise(t *testing.T) {
	both := func() []string { return []string{"/run/guard/broker.sock", "/run/guard/operator.sock"} }
	for _, tt := range []struct {
		name   string
		listen []string
		spoil  func(t *testing.T)
		why    string
	}{
		{"one socket", both()[:1], nil, "1 came, want"},
		{"TCP beside them", append(both(), "127.0.0.1:48123"), nil, "it is not a unix socket"},
		{"TCP instead", []string{both()[0], "127.0.0.1:48123"}, nil, "it is not a unix socket"},
		{"another path", []string{both()[0], "/run/guard/other.sock"}, nil, "none of the broker's"},
		{"operators' socket open to all", both(), func(t *testing.T) { run(t, "chmod", "0666", both()[1]) }, "0660 at most"},
		{"operators' socket of another group", both(), func(t *testing.T) { run(t, "chgrp", "ada", both()[1]) }, "its group is"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			machine(t)
			args := []string{"systemd-socket-activate"}
			for _, l := range tt.listen {
				args = append(args, "--listen="+l)
			}
			s := serve(t, append(append(args, asGuard...), programs+"/guard-broker"))
			await(t, "the socket", func() bool { _, err := os.Lstat(both()[0]); return err == nil })
			if len(tt.listen) == 2 && tt.listen[1] == both()[1] {
				openSockets(t)
			} else {
				run(t, "chmod", "0666", both()[0])
			}
			if tt.spoil != nil {
				tt.spoil(t)
			}
			before := inode(t, both()[0])
			if conn, err := net.Dial("unix", both()[0]); err == nil {
				defer conn.Close()
			}
			s.refuses(t, tt.why)
			if inode(t, both()[0]) != before {
				t.Error("the broker bound a socket of its own")
			}
		})
	}
}

func inode(t testing.TB, path string) uint64 {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

// Variables of another process are none of ours: the broker is not activated.
// Root's directory isn't its to bind in, and it says how it is started instead.
func TestD1_VariablesOfAnother(t *testing.T) {
	machine(t)
	for _, env := range [][]string{nil, {"LISTEN_PID=1", "LISTEN_FDS=2"}} {
		s := serve(t, append(asGuard, programs+"/guard-broker"), env...)
		s.refuses(t, "systemctl start guard-broker.socket")
	}
	s := serve(t, []string{programs + "/guard-broker"})
	s.refuses(t, "in system mode the broker runs as guard")
	if _, err := os.Lstat("/run/guard/broker.sock"); err == nil {
		t.Error("a socket was made")
	}
}

// K4: a second broker ends on the lock, whoever started it, also while the first
// is stopped; the first is still the one that counts.
func TestK4_SecondBroker(t *testing.T) {
	machine(t)
	first := activate(t)
	first.wake(t)
	a := launch(t, "ada")
	a.call(t, "Read", `{"file_path":"/srv/x"}`, "pass")
	operator(t, "approve", a.id)
	if err := first.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/run/guard/broker.sock", "/run/guard/operator.sock"} {
		if err := os.Rename(path, path+".first"); err != nil {
			t.Fatal(err)
		}
	}
	second := activate(t)
	if conn, err := net.Dial("unix", "/run/guard/broker.sock"); err == nil {
		defer conn.Close()
	}
	second.refuses(t, fmt.Sprintf("another broker is running with pid %d", first.cmd.Process.Pid))
	for _, path := range []string{"/run/guard/broker.sock", "/run/guard/operator.sock"} {
		if err := os.Rename(path+".first", path); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	operator(t, "revoke", a.id)
	a.call(t, "Write", `{"file_path":"/srv/x","content":""}`, "lease_revoked")
	first.terminate(t)
}
