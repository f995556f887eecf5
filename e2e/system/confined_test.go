//go:build system

package system

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/zvmsim"
)

// confined is a broker under everything that its unit puts it under and this
// machine has without systemd as PID 1.
type confined struct {
	cmd    *exec.Cmd
	stderr *bytes.Buffer
	ended  chan error
}

// startConfined starts systemd's own stand-in for socket activation, which becomes the
// broker at the first connection: as user guard, with no capability but
// CAP_KILL, under the unit's filter.
func startConfined(t testing.TB) *confined {
	t.Helper()
	filter, launcher := installFilter(t)
	credentials := "/run/credentials/guard-broker.service"
	run(t, "install", "-d", "-m", "0500", "-o", "guard", "-g", "guard", credentials)
	run(t, "install", "-m", "0400", "-o", "guard", "-g", "guard", "/etc/guard/zvm.secret", credentials+"/zvm")
	c := &confined{stderr: new(bytes.Buffer), ended: make(chan error, 1)}
	c.cmd = exec.Command("systemd-socket-activate",
		"--listen=/run/guard/broker.sock", "--listen=/run/guard/operator.sock", "--setenv=CREDENTIALS_DIRECTORY="+credentials,
		"setpriv", "--reuid=guard", "--regid=guard", "--clear-groups", "--no-new-privs",
		"--bounding-set=-all,+kill", "--inh-caps=-all,+kill", "--ambient-caps=-all,+kill",
		launcher, filter, programs+"/guard-broker")
	c.cmd.Stderr, c.cmd.Dir = c.stderr, "/"
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { c.ended <- c.cmd.Wait() }()
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	for socket, owner := range map[string][2]string{"broker.sock": {"root:root", "0666"}, "operator.sock": {"root:guard-operators", "0660"}} {
		path := filepath.Join("/run/guard", socket)
		await(t, "socket "+path, func() bool { _, err := os.Lstat(path); return err == nil })
		run(t, "chown", owner[0], path) // as the socket units do
		run(t, "chmod", owner[1], path)
	}
	// The request that starts a broker is lost here: the stand-in doesn't set
	// what PassCredentials= of the units does.
	await(t, "the broker", func() bool { return exec.Command(programs+"/guard", "status").Run() == nil })
	return c
}

// await polls for what has no event to wait for. It only ends a test that hangs.
func await(t testing.TB, what string, ready func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ready(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("gave up waiting for %s", what)
		}
	}
}

// settle has guard set the machine up with a simulated ZVM.
func settle(t testing.TB) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "sim")
	sim, err := zvmsim.Start(zvmsim.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	info := sim.Info()
	run(t, programs+"/guard", "init", "--system", "--zvm-url", info.URL, "--zvm-ca-file", info.CAFile, "--zvm-client-id", info.ClientID,
		"--zvm-client-secret-file", filepath.Join(dir, "client.secret"), "--self", "app-01")
}

// T150: the unit restricts nothing that the broker needs. A call that the filter
// refuses ends the broker, and with it this test.
func TestConfinedBrokerTellsTheWholeStory(t *testing.T) {
	bare(t)
	settle(t)
	people(t)
	c := startConfined(t)

	a := launch(t, "ada")
	c.holds(t)
	a.call(t, "Read", `{"file_path":"/srv/x"}`, "pass")
	a.call(t, "Write", `{"file_path":"/srv/x","content":""}`, "lease_unverified")
	if code, _ := a.do(t, "guard approve "+a.id); code != "1" && code != "3" {
		t.Errorf("a session approved itself: exit status %s", code)
	}
	operator(t, "approve", a.id)
	a.call(t, "Write", `{"file_path":"/srv/x","content":""}`, "pass")
	a.call(t, "Bash", `{"command":"true"}`, "pass")
	operator(t, "revoke", a.id)
	a.call(t, "Write", `{"file_path":"/srv/x","content":""}`, "lease_revoked")

	c.reload(t, a)
	c.stop(t)
	if out := run(t, programs+"/guard", "audit", "verify"); !strings.Contains(out, "chain: good") {
		t.Errorf("the audit after the end: %s", out)
	}
}

// holds looks at what the kernel says of the broker.
func (c *confined) holds(t testing.TB) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	uid := strings.TrimSpace(run(t, "id", "-u", "guard"))
	kill := fmt.Sprintf("%016x", 1<<unix.CAP_KILL)
	for field, want := range map[string]string{
		"Name": "guard-broker", "Uid": strings.Repeat(uid+"\t", 3) + uid, "NoNewPrivs": "1", "Seccomp": "2",
		"CapEff": kill, "CapPrm": kill, "CapBnd": kill, "CapAmb": kill, "Groups": "",
	} {
		m := regexp.MustCompile(`(?m)^` + field + `:[ \t]*(.*?)[ \t]*$`).FindSubmatch(text)
		if m == nil || string(m[1]) != want {
			t.Errorf("/proc/PID/status has %s %q, want %q", field, m, want)
		}
	}
}

// reload changes guard.toml and sends SIGHUP, as the unit's ExecReload does.
func (c *confined) reload(t testing.TB, a *agent) {
	t.Helper()
	text, err := os.ReadFile("/etc/guard/guard.toml")
	if err != nil {
		t.Fatal(err)
	}
	shorter := strings.Replace(string(text), `#ttl = "300s"`, `ttl = "120s"`, 1)
	if err := os.WriteFile("/etc/guard/guard.toml", []byte(shorter), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Process.Signal(unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	await(t, "the new ttl", func() bool { return strings.Contains(operator(t, "approve", a.id), "VERIFIED for 2m0s") })
	if out := operator(t, "status"); strings.Contains(out, "changed since") {
		t.Errorf("after the reload guard status says %s", out)
	}
}

// stop ends the broker as a service manager does.
func (c *confined) stop(t testing.TB) {
	t.Helper()
	if err := c.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.endsWell(t)
}

func (c *confined) endsWell(t testing.TB) {
	t.Helper()
	select {
	case err := <-c.ended:
		if err != nil || strings.Contains(c.stderr.String(), "SIGSYS") {
			t.Errorf("the broker ended: %v\n%s", err, c.stderr)
		}
	case <-time.After(5 * time.Second):
		t.Errorf("the broker runs on 5 s after SIGTERM\n%s", c.stderr)
	}
}

// Where no systemd runs, the broker itself is told to stop.
func TestUninstallStopsTheBroker(t *testing.T) {
	bare(t)
	run(t, programs+"/guard", "init", "--system", "--self", "none")
	people(t)
	run(t, "install", "-m", "0600", "/dev/null", "/etc/guard/zvm.secret")
	c := startConfined(t)
	out := run(t, programs+"/guard", "uninstall", "--system", "--yes")
	if !strings.Contains(out, "broker stopped: nobody has authority") || !strings.Contains(out, `removed "/etc/guard/guard.toml"`) {
		t.Errorf("guard uninstall --system says %s", out)
	}
	c.endsWell(t)
}
