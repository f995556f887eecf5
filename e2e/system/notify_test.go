//go:build system

package system

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/zvmsim"
)

// The first word is READY, and by then all of it works: both sockets lead to the
// broker, and its first record is on disk.
func TestReadyMeansServing(t *testing.T) {
	machine(t)
	m := newManager(t)
	s := m.start()
	if said := m.await("READY=1", s); !strings.Contains(said, "STATUS=0 sessions") {
		t.Errorf("told %q", said)
	}
	if len(m.heard) != 1 {
		t.Errorf("told %q", m.heard)
	}
	if !s.serves() {
		t.Error("ready, and doesn't serve")
	}
	for _, path := range []string{"/run/guard/broker.sock", "/run/guard/operator.sock"} {
		if pid, _ := listener(t, path); pid != s.cmd.Process.Pid {
			t.Errorf("%s: process %d listens", path, pid)
		}
	}
	if out := run(t, "sh", "-c", "cat /var/lib/guard/audit/*"); !strings.Contains(out, `"started"`) {
		t.Errorf("the audit has %s", out)
	}
	s.terminate(t)
	m.await("STOPPING=1", &service{ended: make(chan error), stderr: new(bytes.Buffer)})
}

// A start that fails is never ready.
func TestNeverReadyWithoutAState(t *testing.T) {
	machine(t)
	m := newManager(t)
	run(t, "chmod", "0755", "/var/lib/guard/audit")
	s := m.start()
	s.refuses(t, "chmod 2750")
	if said := m.next(100 * time.Millisecond); said != "" {
		t.Errorf("told %q", said)
	}
}

func TestWatchdogIsFed(t *testing.T) {
	machine(t)
	m := newManager(t)
	s := m.start("WATCHDOG_USEC=300000", "WATCHDOG_PID=")
	for range 5 {
		m.await("WATCHDOG=1", s)
	}
	// Stopped, none of its loops comes round.
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for m.next(2*time.Second) != "" {
	}
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	m.await("WATCHDOG=1", s)
	s.terminate(t)
}

// The sessions' anchors stay with the service manager when the broker is killed:
// the next one takes them back, and gives nobody authority.
func TestAnchorsSurviveARestart(t *testing.T) {
	machine(t)
	m := newManager(t)
	s := m.start()
	m.await("READY=1", s)
	a := launch(t, "ada")
	a.call(t, "Read", `{"file_path":"/srv/x"}`, "pass")
	operator(t, "approve", a.id)
	name := "anchor-" + a.id + "-1"
	for m.kept[name] == nil {
		m.await("FDSTORE=1", s)
	}
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-s.ended; err == nil {
		t.Fatal("a killed broker ended by itself")
	}

	s = m.start()
	m.await("READY=1", s)
	a.call(t, "Write", `{"file_path":"/srv/x","content":""}`, "lease_unverified")
	operator(t, "approve", a.id)
	a.call(t, "Write", `{"file_path":"/srv/x","content":""}`, "pass")
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-s.ended; err == nil {
		t.Fatal("a killed broker ended by itself")
	}

	// What is kept under a session's name is held against what is stored of it: the
	// pidfd of another process is not its anchor, and then nothing else is.
	other, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	m.kept[name] = os.NewFile(uintptr(other), name)
	s = m.start()
	m.await("READY=1", s)
	a.call(t, "Write", `{"file_path":"/srv/x","content":""}`, "not_registered")
	if m.kept[name] != nil {
		t.Error("the pidfd of another process stays kept")
	}
	s.terminate(t)
}

// slowDisk makes the broker one that takes its time for each sync.
func slowDisk(t testing.TB) string {
	t.Helper()
	cmd := exec.Command("go", "build", "-tags", "failpoint", "-o", programs+"/guard-broker", "../../cmd/guard-broker")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building with fail points: %v: %s", err, out)
	}
	return "GUARD_FAILPOINT=audit/before-sync:sleep=300ms,store/before-commit:sleep=300ms"
}

// SIGTERM ends the broker within five seconds, with every record on disk: also
// while a checkpoint is awaited, connections of all kinds hang, and the disk is
// slow.
func TestTerminatesWithin5Seconds(t *testing.T) {
	bare(t)
	behaviour, err := zvmsim.Preset("fast")
	if err != nil {
		t.Fatal(err)
	}
	behaviour.Faults = map[string]zvmsim.Faults{"*": {Insert: zvmsim.InsertStuck}}
	settleWith(t, zvmsim.Options{Behaviour: &behaviour})
	people(t)
	credentials := "/run/credentials"
	run(t, "install", "-d", "-m", "0500", "-o", "guard", "-g", "guard", credentials)
	run(t, "install", "-m", "0400", "-o", "guard", "-g", "guard", "/etc/guard/zvm.secret", credentials+"/zvm")
	m := newManager(t)
	s := m.start(slowDisk(t), "CREDENTIALS_DIRECTORY="+credentials)
	m.await("READY=1", s)
	a := launch(t, "ada")
	a.call(t, "Read", `{"file_path":"/srv/x"}`, "pass")
	operator(t, "approve", a.id)
	uid := strings.TrimSpace(run(t, "id", "-u", "guard"))
	if _, err := fmt.Fprintf(a.in, `printf %%s '{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Write","tool_input":{"file_path":"/x","content":""}}' | guard-gate claude --socket /run/guard/broker.sock --broker-uid %s --role decide >answer`+"\n", uid); err != nil {
		t.Fatal(err)
	}
	await(t, "a call that waits", func() bool { return status(t).Broker.InFlight > 0 })
	var hung []net.Conn
	for i := range 60 {
		conn, err := net.Dial("unix", []string{"/run/guard/broker.sock", "/run/guard/operator.sock"}[i%2])
		if err != nil {
			t.Fatal(err)
		}
		hung = append(hung, conn)
		_, _ = conn.Write([]byte("LGRD")[:i%4])
	}
	defer func() {
		for _, c := range hung {
			_ = c.Close()
		}
	}()
	s.terminate(t)
	if answer, err := a.out.ReadString('\n'); err != nil || strings.TrimSpace(answer) != "2" {
		t.Errorf("the call that waited ended with %q, %v; want a denial", answer, err)
	}
	m.stopListening()
	if out := run(t, programs+"/guard", "audit", "verify"); !strings.Contains(out, "chain: good") {
		t.Errorf("the audit after the end: %s", out)
	}
	out := run(t, "sh", "-c", "tail -n1 $(ls /var/lib/guard/audit/* | tail -n1)")
	if !strings.Contains(out, `"stopped"`) {
		t.Errorf("the last record: %s", out)
	}
}

// settleWith sets system mode up with a ZVM that behaves so.
func settleWith(t testing.TB, o zvmsim.Options) {
	t.Helper()
	o.Dir = filepath.Join(t.TempDir(), "sim")
	sim, err := zvmsim.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	info := sim.Info()
	run(t, programs+"/guard", "init", "--system", "--zvm-url", info.URL, "--zvm-ca-file", info.CAFile, "--zvm-client-id", info.ClientID,
		"--zvm-client-secret-file", filepath.Join(o.Dir, "client.secret"), "--self", "app-01")
}

// D3: events are lines of the journal with fields. A journald that takes nothing,
// and one that is gone, hold up no verdict, and what they lack is counted.
func TestD3_JournalInSystemMode(t *testing.T) {
	machine(t)
	const path = "/run/systemd/journal/socket"
	run(t, "mkdir", "-p", filepath.Dir(path))
	journald, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	run(t, "chmod", "0666", path)
	s := activate(t)
	s.wake(t)
	a := launch(t, "ada")
	a.call(t, "Write", `{"file_path":"/srv/x","content":""}`, "lease_unverified")
	operator(t, "approve", a.id)
	lines, text := "", make([]byte, 64<<10)
	for !strings.Contains(lines, "GUARD_CODE=promote\n") {
		_ = journald.SetReadDeadline(time.Now().Add(20 * time.Second))
		n, err := journald.Read(text)
		if err != nil {
			t.Fatalf("no line tells of the promotion: %v; %s", err, lines)
		}
		lines += string(text[:n])
	}
	for _, want := range []string{"SYSLOG_IDENTIFIER=guard-broker\n", "GUARD_SESSION=" + a.id + "\n", "GUARD_CODE=lease_unverified\n", "GUARD_TOOL=Write\n", "PRIORITY=5\n"} {
		if !strings.Contains(lines, want) {
			t.Errorf("the journal lacks %q: %s", want, lines)
		}
	}
	// From here on nobody reads.
	for range 3 {
		operator(t, "approve", a.id)
		a.call(t, "Write", `{"file_path":"/srv/x","content":""}`, "pass")
	}
	_ = journald.Close() // and now nobody is there
	operator(t, "revoke", a.id)
	a.call(t, "Write", `{"file_path":"/srv/x","content":""}`, "lease_revoked")
	await(t, "the count of lost lines", func() bool { return status(t).Broker.JournalLost > 0 })
	s.terminate(t)
	if out := run(t, programs+"/guard", "audit", "verify"); !strings.Contains(out, "chain: good") {
		t.Errorf("the audit: %s", out)
	}
}
