//go:build system

package system

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/wire"
)

// playsHost makes this binary a host: it registers itself as the anchor of a
// Claude session and then starts hooks as Claude does, as its stdin says.
const playsHost = "GUARD_SYSTEM_TEST_HOST"

func init() {
	if words := strings.Fields(os.Getenv(orphansGate)); len(words) > 0 {
		if err := leaveOrphan(words); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(playsHost) != "" {
		if err := playHost(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

const hostPayload = `{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Read","tool_input":{"file_path":"/srv/x"}}`

func playHost() error {
	p, err := paths.Resolve(os.Getenv, uint32(os.Getuid()))
	if err != nil {
		return err
	}
	res, conn, err := client.Register(context.Background(), p, wire.Register{Runtime: "claude", Dir: "/", Command: "host", Hooks: wire.ProjectHooks{State: wire.ProjectAbsent}}, nil)
	if err != nil {
		return err
	}
	fmt.Println(res.Session.ID)
	lines := bufio.NewScanner(os.Stdin)
	if !lines.Scan() { // the test waits until the registration is known
		return io.ErrUnexpectedEOF
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil { // as guard launch does
		return err
	}
	if err := conn.Close(); err != nil { // as exec does
		return err
	}
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if words[0] == "orphan" {
			fmt.Println(orphan(words[1:]))
			continue
		}
		fmt.Println(hook(words, p))
	}
	return lines.Err()
}

// gateOf is a gate with a socketpair of ours as its stdin, as Node hosts do. All
// that it is to read is written.
func gateOf(words []string, p paths.Paths) (*exec.Cmd, *os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	in, out := os.NewFile(uintptr(pair[0]), "in"), os.NewFile(uintptr(pair[1]), "out")
	args := append(words, "claude", "--socket", p.BrokerSocket, "--broker-uid", fmt.Sprint(p.BrokerUID), "--role", "decide")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin = in
	_, err = out.WriteString(hostPayload)
	return cmd, out, errors.Join(err, unix.Shutdown(pair[1], unix.SHUT_WR))
}

// hook runs a gate as a host does.
func hook(words []string, p paths.Paths) string {
	cmd, out, err := gateOf(words, p)
	if err != nil {
		return err.Error()
	}
	stderr := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = io.Discard, stderr // a host reads it; into the null device no pass goes
	err = cmd.Run()
	_ = out.Close()
	return fmt.Sprintf("%v %q", err, stderr)
}

// orphansGate makes this binary a tool: it starts a gate with a socketpair of its
// own and ends after so long, perhaps while the gate asks.
const orphansGate = "GUARD_SYSTEM_TEST_ORPHAN"

func orphan(words []string) error {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), orphansGate+"="+strings.Join(words, " "))
	return cmd.Run()
}

func leaveOrphan(words []string) error {
	p, err := paths.Resolve(os.Getenv, uint32(os.Getuid()))
	if err != nil {
		return err
	}
	late, err := time.ParseDuration(words[0])
	if err != nil {
		return err
	}
	cmd, out, err := gateOf(words[1:], p)
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	time.Sleep(late)
	_ = out.Close()
	return nil
}

// host is a session of ada's whose anchor plays Claude.
type host struct {
	id  string
	in  io.Writer
	out *bufio.Reader
}

func startHost(t testing.TB) *host {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(programs, "host")
	if err := os.WriteFile(path, self, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := as("ada", path)
	cmd.Env = append(cmd.Env, playsHost+"=1")
	stderr := new(bytes.Buffer)
	cmd.Stderr = stderr
	in, out := testproc.Piped(t, cmd)
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	h := &host{in: in, out: bufio.NewReader(out)}
	line, err := h.out.ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		t.Fatalf("the host didn't register: %s", stderr)
	}
	h.id = strings.TrimSpace(line)
	fmt.Fprintln(in, "go on")
	await(t, "the launch", func() bool { return h.session(t).Launched })
	return h
}

func (h *host) session(t testing.TB) wire.Session {
	t.Helper()
	for _, s := range status(t).Sessions {
		if s.ID == h.id {
			return s
		}
	}
	t.Fatalf("the broker doesn't know session %s", h.id)
	return wire.Session{}
}

// hook has the host start a gate, and wants the call to pass.
func (h *host) hook(t testing.TB, command string) {
	t.Helper()
	fmt.Fprintln(h.in, command)
	line, err := h.out.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "<nil>") {
		t.Errorf("%s: %q, %v", command, line, err)
	}
}

// In system mode the broker can't see which program a session's process runs.
// The installed gate is known by its group, which nothing else can have: a copy
// of it, and a gate that isn't the host's own child, prove nothing.
func TestGateIsProvedByItsGroup(t *testing.T) {
	machine(t)
	s := activate(t)
	s.wake(t)
	h := startHost(t)
	gate := programs + "/guard-gate"
	run(t, "install", "-m", "0755", "-o", "ada", gate, "/home/ada/gate")
	run(t, "install", "-m", "2755", "-o", "ada", "-g", "ada", gate, "/home/ada/gate-own-group")
	for _, other := range []string{
		"/home/ada/gate", "/home/ada/gate-own-group",
		"setpriv --no-new-privs " + gate, // the group's bit has no effect then
	} {
		h.hook(t, other)
		if h.session(t).GateSeen {
			t.Fatalf("%s counts as the installed gate", other)
		}
	}
	// A process of the session that isn't the host starts the installed gate.
	script := "/home/ada/between"
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"+gate+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	h.hook(t, script)
	if h.session(t).GateSeen {
		t.Fatal("a gate that another process than the host started counts as the host's own")
	}
	if out, err := as("olga", "guard", "approve", h.id).CombinedOutput(); err == nil || !strings.Contains(string(out), "gate_unseen") {
		t.Errorf("approving a session whose gate was never seen: %v, %s", err, out)
	}
	h.hook(t, gate)
	if !h.session(t).GateSeen {
		t.Fatal("the installed gate, started by the host, isn't known")
	}
	operator(t, "approve", h.id)
}

// TestAttack28_SystemMode: a tool starts the installed gate and ends while the
// gate asks, so that the host has adopted it when the broker looks.
func TestAttack28_SystemMode(t *testing.T) {
	machine(t)
	s := activate(t)
	s.wake(t)
	h := startHost(t)
	gate := programs + "/guard-gate"
	broker := s.cmd.Process
	for _, late := range []string{"1ms", "5ms", "200ms"} { // by then it has asked, on a machine that isn't busy
		before := h.session(t).Calls
		if err := broker.Signal(unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		h.hook(t, "orphan "+late+" "+gate)
		if err := broker.Signal(unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
		await(t, "the orphan's call", func() bool { return h.session(t).Calls > before })
		if h.session(t).GateSeen {
			t.Errorf("the gate of an orphan whose parent ended %s after its start counts as the host's own", late)
		}
	}
	h.hook(t, gate)
	if !h.session(t).GateSeen {
		t.Error("the installed gate, started by the host, isn't known")
	}
}

// A runtime below the session's own is found by its names, since its program
// can't be read.
func TestNestedRuntimeByName(t *testing.T) {
	machine(t)
	s := activate(t)
	s.wake(t)
	a := launch(t, "ada")
	run(t, "install", "-m", "0755", "-o", "ada", "/bin/sh", "/home/ada/claude")
	uid := strings.TrimSpace(run(t, "id", "-u", "guard"))
	ask := `printf %s '{\"hook_event_name\":\"PreToolUse\",\"session_id\":\"s\",\"tool_name\":\"Read\",\"tool_input\":{}}' | guard-gate claude --socket /run/guard/broker.sock --broker-uid ` + uid + ` --role decide >answer; exit \$?`
	for shell, want := range map[string]string{"/bin/sh": "0", "./claude": "2"} {
		code, said := a.do(t, shell+` -c "`+ask+`"`)
		if code != want || want == "2" && !strings.Contains(said, "guard: nested_runtime: ") {
			t.Errorf("below %s: exit status %s, %s", shell, code, said)
		}
	}
}

// Everybody may register and ask, each user in sessions of their own; root may
// not, nor who can't be looked at.
func TestWhoMayRegister(t *testing.T) {
	machine(t)
	s := activate(t)
	s.wake(t)
	ada, olga := launch(t, "ada"), launch(t, "olga")
	ada.call(t, "Read", `{"file_path":"/srv/x"}`, "pass")
	if ada.id == olga.id {
		t.Error("two users share a session")
	}
	refused := func(cmd *exec.Cmd, why string) {
		t.Helper()
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), why) {
			t.Errorf("%q: %v, %s; want %s", cmd.Args, err, out, why)
		}
	}
	root := exec.Command(programs+"/guard", "launch", "exec", "--", "/bin/true")
	refused(root, "root_session")
	// With the powers that undo a boundary an ordinary user is as good as root.
	capable := exec.Command("setpriv", "--reuid=ada", "--regid=ada", "--init-groups", "--inh-caps=+sys_ptrace", "--ambient-caps=+sys_ptrace",
		programs+"/guard", "launch", "exec", "--", "/bin/true")
	capable.Dir = "/home/ada"
	refused(capable, "root_session")
}

// Where /proc hides other users' processes, nobody can tell what powers a
// launcher has: unknown is refused. Callers are known by pidfds all the same.
func TestHiddenProcessesAreRefused(t *testing.T) {
	machine(t)
	s := activate(t)
	s.wake(t)
	a := launch(t, "ada")
	if err := unix.Mount("proc", "/proc", "proc", 0, "hidepid=2"); err != nil {
		t.Skipf("this kernel hides no processes: %v", err)
	}
	defer func() {
		if err := unix.Unmount("/proc", unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	out, err := as("ada", "guard", "launch", "exec", "--", "/bin/true").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "guard: ") {
		t.Errorf("a launcher that can't be looked at: %v, %s", err, out)
	}
	a.call(t, "Read", `{"file_path":"/srv/x"}`, "pass")
	a.call(t, "Write", `{"file_path":"/srv/x","content":""}`, "lease_unverified")
}
