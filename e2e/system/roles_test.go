//go:build system

package system

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// plot is what a process of ada's does once it may: it tries to be an operator,
// and to read what operators read. What each command said, and its exit status,
// go into files.
func plot(t testing.TB, name string, commands []string) string {
	t.Helper()
	script := "cd /home/ada; export HOME=/home/ada PATH=" + programs + ":/usr/bin:/bin\nunset GUARD_SESSION GUARD_GENERATION\n" +
		"while [ ! -e go-" + name + " ]; do sleep 0.02; done\n"
	for i, c := range commands {
		script += fmt.Sprintf("%s </dev/null >said-%s-%d 2>&1; echo $? >code-%s-%d\n", c, name, i, name, i)
	}
	path := "/home/ada/plot-" + name
	if err := os.WriteFile(path, []byte(script+"touch done-"+name+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return "sh " + path
}

// let lets a plot go on and holds each of its commands to an exit code and words.
func let(t testing.TB, name string, want [][2]string) {
	t.Helper()
	if err := os.WriteFile("/home/ada/go-"+name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the plot "+name, func() bool { _, err := os.Stat("/home/ada/done-" + name); return err == nil })
	for i, w := range want {
		code, err := os.ReadFile(fmt.Sprintf("/home/ada/code-%s-%d", name, i))
		if err != nil {
			t.Fatal(err)
		}
		said, err := os.ReadFile(fmt.Sprintf("/home/ada/said-%s-%d", name, i))
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(string(code)) != w[0] || !strings.Contains(string(said), w[1]) {
			t.Errorf("%s, command %d: exit %s, %q; want %s and %q", name, i, code, said, w[0], w[1])
		}
	}
}

// refused are what a session must not do in system mode, in the order of forbidden.
var refused = [][2]string{
	{"1", "not_operator"}, {"1", "not_operator"}, {"1", "not_operator"}, {"1", "not_operator"},
	{"1", "Permission denied"}, {"1", "Permission denied"}, {"1", "Permission denied"},
}

func forbidden(id string) []string {
	return []string{
		"guard approve " + id, "guard verify " + id, "guard revoke --all", "guard broker stop",
		"cat /var/lib/guard/audit/*", "cat /var/lib/guard/guard.db", "cat /etc/guard/zvm.secret",
	}
}

// world is a machine in system mode on which ada has a session that had a lease.
// olga is an operator.
func world(t *testing.T, member bool) *agent {
	t.Helper()
	bare(t)
	run(t, programs+"/guard", "init", "--system", "--self", "none")
	if err := os.WriteFile("/etc/guard/zvm.secret", []byte("of a ZVM\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	people(t)
	if member {
		run(t, "usermod", "-aG", "guard-operators", "ada")
	}
	c := startConfined(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the broker said: %s", c.stderr)
		}
	})
	// The request that starts a broker is lost without PassCredentials= of the unit.
	await(t, "the broker", func() bool { return exec.Command(programs+"/guard", "status").Run() == nil })
	a := launch(t, "ada")
	a.call(t, "Read", `{"file_path":"/srv/x"}`, "pass")
	operator(t, "approve", a.id)
	a.call(t, "Bash", `{"command":"true"}`, "pass")
	return a
}

// members runs a test for a user who is no operator, and for one who would be if
// it weren't for the session: then the broker alone refuses.
func members(t *testing.T, test func(*testing.T, *agent)) {
	for name, member := range map[string]bool{"a user": false, "a user in guard-operators": true} {
		t.Run(name, func(t *testing.T) { test(t, world(t, member)) })
	}
}

func (a *agent) stays(t testing.TB, state string) {
	t.Helper()
	for _, s := range status(t).Sessions {
		if s.ID == a.id && s.State == state {
			return
		}
	}
	t.Errorf("the session isn't %s: %+v", state, status(t).Sessions)
}

// TestAttack26_SystemMode: what a passed call has left running, forked twice,
// approves its own session. The socket's mode keeps it out; if its user may open
// that, its anchor does, which is among its ancestors.
func TestAttack26_SystemMode(t *testing.T) {
	members(t, func(t *testing.T, a *agent) {
		line := "setsid sh -c '(" + plot(t, "orphan", append(forbidden(a.id), "guard log", "guard status")) + " &)' &"
		if code, said := a.do(t, line); code != "0" {
			t.Fatalf("exit %s: %s", code, said)
		}
		operator(t, "revoke", a.id)
		let(t, "orphan", append(append([][2]string{}, refused...), [2]string{"1", "not_operator"}, [2]string{"0", a.id[:6]}))
		a.stays(t, "UNVERIFIED")
	})
}

// TestAttack27_SystemMode: the same by a process of the user's that the session
// doesn't own, by a stand-in for cron and by a tmux server from before. The
// session's uid is no operator's while the session lives.
func TestAttack27_SystemMode(t *testing.T) {
	members(t, func(t *testing.T, a *agent) {
		operator(t, "revoke", a.id)
		cron := as("ada", "sh", "-c", plot(t, "cron", forbidden(a.id)))
		cron.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
		if err := cron.Start(); err != nil {
			t.Fatal(err)
		}
		let(t, "cron", refused)
		_ = cron.Wait()
		a.stays(t, "UNVERIFIED")
		if _, err := exec.LookPath("tmux"); err != nil {
			return // the same again
		}
		tmux := "tmux -S /home/ada/tmux -f /dev/null "
		server := as("ada", "sh", "-c", tmux+"new-session -d 'exec cat'")
		server.Env = append(server.Env, "TERM=xterm", "SHELL=/bin/sh")
		if out, err := server.CombinedOutput(); err != nil {
			t.Fatalf("tmux: %v: %s", err, out)
		}
		t.Cleanup(func() { _ = as("ada", "sh", "-c", tmux+"kill-server").Run() })
		if code, said := a.do(t, tmux+"run-shell -b '"+plot(t, "tmux", forbidden(a.id))+"'"); code != "0" {
			t.Fatalf("exit %s: %s", code, said)
		}
		let(t, "tmux", refused)
		a.stays(t, "UNVERIFIED")
	})
}

// TestNestedInSystemMode: a launch inside a session is refused, and so is a
// call of another runtime below it, which the broker's uid can't look into.
func TestNestedInSystemMode(t *testing.T) {
	a := world(t, false)
	if code, said := a.do(t, "guard launch exec -- true"); code != "3" || !strings.Contains(said, "nested_launch") {
		t.Errorf("a nested launch: exit %s, %s", code, said)
	}
	if code, said := a.do(t, "env -u GUARD_SESSION setsid -w guard launch exec -- true"); code != "3" || !strings.Contains(said, "nested_launch") {
		t.Errorf("a nested launch in a process session of its own: exit %s, %s", code, said)
	}
	run(t, "install", "-o", "ada", "/bin/sh", filepath.Join("/home/ada", "claude"))
	gate := fmt.Sprintf(`guard-gate claude --socket /run/guard/broker.sock --broker-uid %s --role decide`, strings.TrimSpace(run(t, "id", "-u", "guard")))
	if err := os.WriteFile("/home/ada/ask", fmt.Appendf(nil, `printf %%s '{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Bash","tool_input":{}}' | %s >answer`, gate), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, said := a.do(t, "./claude ask"); code != "2" || !strings.Contains(said, "guard: nested_runtime: ") {
		t.Errorf("a nested runtime: exit %s, %s", code, said)
	}
	a.call(t, "Bash", `{"command":"true"}`, "pass") // the session's own lease is untouched
}
