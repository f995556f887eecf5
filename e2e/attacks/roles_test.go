//go:build attacks

package attacks

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/wire"
)

// shell is a session whose runtime is a shell: what a test has it run are the
// tools' own programs.
type shell struct {
	w   *world
	id  string
	pid int
	in  io.WriteCloser
	out *bufio.Reader
}

// loop runs line after line and answers each with its exit status.
const loop = `echo up; while IFS= read -r line; do (eval "$line") </dev/null >said 2>&1; echo $?; done`

func (w *world) shell() *shell {
	w.T.Helper()
	cmd := exec.Command(w.Programs.Guard, "launch", "exec", "--", "/bin/sh", "-c", loop)
	cmd.Env, cmd.Dir, cmd.Stderr = append(w.Env, "PATH="+filepath.Dir(w.Programs.Guard)+":"+os.Getenv("PATH")), w.Sandbox.Dir, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	in, out := testproc.Piped(w.T, cmd)
	s := &shell{w: w, pid: cmd.Process.Pid, in: in, out: bufio.NewReader(out)}
	w.T.Cleanup(func() { in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if line, err := s.out.ReadString('\n'); line != "up\n" {
		w.T.Fatalf("the session didn't start: %q, %v", line, err)
	}
	w.eventually("the broker knows that the session runs", func() bool {
		for _, x := range w.sessions() {
			if x.AnchorPID == s.pid && x.Launched {
				s.id = x.ID
			}
		}
		return s.id != ""
	})
	return s
}

// run runs a line as a child of the runtime, and returns its exit status.
func (s *shell) run(line string) string {
	s.w.T.Helper()
	_, err := fmt.Fprintln(s.in, line)
	s.w.Must(err)
	code, err := s.out.ReadString('\n')
	s.w.Must(err)
	return strings.TrimSpace(code)
}

func (s *shell) said() string { return s.w.file("said") }

// gated asks the gate and wants it to pass.
func (s *shell) gated(tool string) {
	s.w.T.Helper()
	line := fmt.Sprintf("printf %%s '%s' | %s", payload("PreToolUse", tool), strings.Join(s.w.gate("decide"), " "))
	if code := s.run(line); code != "0" {
		s.w.T.Fatalf("%s: exit %s, %s", tool, code, s.said())
	}
}

func (w *world) file(name string) string {
	w.T.Helper()
	text, err := os.ReadFile(filepath.Join(w.Sandbox.Dir, name))
	w.Must(err)
	return string(text)
}

// plot is what a process left behind does, once it may: it tries to be an
// operator. What each command said, and its exit status, go into a file.
func (w *world) plot(name string, commands ...string) string {
	w.T.Helper()
	script := "cd " + w.Sandbox.Dir + "\n"
	for _, kv := range w.Env { // who runs it may have another environment
		if strings.HasPrefix(kv, "HOME=") || strings.HasPrefix(kv, "XDG_") {
			script += "export " + kv + "\n"
		}
	}
	script += "unset GUARD_SESSION GUARD_GENERATION\nwhile [ ! -e go-" + name + " ]; do sleep 0.02; done\n"
	script += "cut -d ' ' -f 4 /proc/$$/stat >parent-" + name + "\n"
	for i, c := range commands {
		script += fmt.Sprintf("%s/%s </dev/null >said-%s-%d 2>&1; echo $? >code-%s-%d\n", filepath.Dir(w.Programs.Guard), c, name, i, name, i)
	}
	path := filepath.Join(w.Sandbox.Dir, "plot-"+name)
	w.Must(os.WriteFile(path, []byte(script+"touch done-"+name+"\n"), 0o600))
	return "sh " + path
}

// let lets it go on and waits for its end.
func (w *world) let(name string) {
	w.T.Helper()
	w.Must(os.WriteFile(filepath.Join(w.Sandbox.Dir, "go-"+name), nil, 0o600))
	w.eventually("the plot ends", func() bool { _, err := os.Stat(filepath.Join(w.Sandbox.Dir, "done-"+name)); return err == nil })
}

func (w *world) fails(name string, n int, code, says string) {
	w.T.Helper()
	got, said := strings.TrimSpace(w.file(fmt.Sprintf("code-%s-%d", name, n))), w.file(fmt.Sprintf("said-%s-%d", name, n))
	if got != code || !strings.Contains(said, says) {
		w.T.Errorf("%s, command %d: exit %s, %q; want %s and %q", name, n, got, said, code, says)
	}
}

// ready makes a session that had a lease, under which its tool ran, and has none
// any more.
func (w *world) ready(tool func(*shell)) *shell {
	w.T.Helper()
	s := w.shell()
	s.gated("Read")
	w.approve(s.id)
	s.gated("Bash")
	tool(s)
	w.operate(wire.Control{Verb: wire.VerbRevoke, Session: s.id})
	return s
}

// TestAttack26_DoubleForkedChild: what a passed call has left running, forked
// twice and in a process session of its own, is no operator: it stays below the
// anchor, which is the reaper of its orphans (launcher, register), and whoever
// has an anchor above it is a session (broker/roles.go, identify).
func TestAttack26_DoubleForkedChild(t *testing.T) {
	for name, secret := range map[string]wire.Secret{"cooperative": "", "passphrase": "words of the operator"} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			otherID := w.session(w.Start(), "exec")
			commands := []string{
				"guard approve ID", "guard verify ID", "guard approve ID --clear-alarm", "guard revoke --all", "guard log", "guard audit verify",
				"guard init --passphrase", "guard init --no-passphrase", "guard broker stop", "guard broker restart", "guard uninstall --yes", "guard status --json",
			}
			s := w.ready(func(s *shell) {
				for i := range commands {
					commands[i] = strings.Replace(commands[i], "ID", s.id, 1)
				}
				s.must(s.run("setsid sh -c '(" + w.plot("orphan", commands...) + " &) ' &"))
			})
			if r := w.operate(wire.Control{Verb: wire.VerbPassphrase, NewPassphrase: secret}); r.Error != nil {
				t.Fatal(r.Error)
			}
			w.let("orphan")
			if parent := strings.TrimSpace(w.file("parent-orphan")); parent != fmt.Sprint(s.pid) {
				t.Errorf("its parent is %s and not the anchor %d: it was no orphan, or got away", parent, s.pid)
			}
			last := len(commands) - 1
			for i := range last {
				w.fails("orphan", i, "1", "guard: not_operator: ")
			}
			w.fails("orphan", last, "0", `"only_self": true`)
			if strings.Contains(w.file(fmt.Sprintf("said-orphan-%d", last)), otherID) {
				t.Error("it sees another session")
			}
			if state := w.state(s.id); state != "UNVERIFIED" {
				t.Errorf("the session is %s", state)
			}
			if w.state(otherID) == "gone" {
				t.Error("another session was ended")
			}
		})
	}
}

// spool stands for at and cron: a process of the user's, from before the
// session, that runs what it finds.
func (w *world) spool() (submit func(*shell, string)) {
	w.T.Helper()
	fifo := filepath.Join(w.Sandbox.Dir, "spool")
	w.Must(syscall.Mkfifo(fifo, 0o600))
	cmd := exec.Command("sh", "-c", `exec 3<>spool; while IFS= read -r job <&3; do sh -c "$job"; done`)
	cmd.Dir, cmd.Env = w.Sandbox.Dir, w.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	w.Must(cmd.Start())
	w.T.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
	return func(s *shell, job string) { s.must(s.run("echo '" + job + "' > spool")) }
}

func (s *shell) must(code string) {
	s.w.T.Helper()
	if code != "0" {
		s.w.T.Fatalf("exit %s: %s", code, s.said())
	}
}

// tmux is a server from before the session, told by the session what to run.
func (w *world) tmux() (submit func(*shell, string)) {
	w.T.Helper()
	path, err := exec.LookPath("tmux")
	if err != nil {
		testproc.Lacks(w.T, "there is no tmux; the spool is the same attack")
	}
	base := []string{"-S", filepath.Join(w.Sandbox.Dir, "tmux"), "-f", "/dev/null"}
	tmux := func(args ...string) *exec.Cmd {
		cmd := exec.Command(path, append(base, args...)...)
		cmd.Dir, cmd.Env = w.Sandbox.Dir, append(w.Env, "TERM=xterm", "SHELL=/bin/sh")
		return cmd
	}
	if out, err := tmux("new-session", "-d", "exec cat").CombinedOutput(); err != nil {
		w.T.Fatalf("tmux: %v: %s", err, out)
	}
	w.T.Cleanup(func() { _ = tmux("kill-server").Run() })
	return func(s *shell, job string) {
		s.must(s.run(path + " " + strings.Join(base, " ") + " run-shell -b '" + job + "'"))
	}
}

// TestAttack27_OutsideHelper: a process of the same user that the session
// doesn't own runs what the session gives it. In user mode the kernel can't tell
// it from the operator. With a passphrase it is refused all that raises
// authority (broker/passphrase.go, raise); without one it is one, which is the
// documented limit, and status says cooperative.
func TestAttack27_OutsideHelper(t *testing.T) {
	for name, helper := range map[string]func(*world) func(*shell, string){"spool": (*world).spool, "tmux": (*world).tmux} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			submit := helper(w)
			s := w.ready(func(s *shell) {
				submit(s, w.plot("with", "guard approve "+s.id, "guard verify "+s.id, "guard init --no-passphrase", "guard init --passphrase", "guard revoke "+s.id))
			})
			if r := w.operate(wire.Control{Verb: wire.VerbPassphrase, NewPassphrase: "words of the operator"}); r.Error != nil {
				t.Fatal(r.Error)
			}
			w.let("with")
			for i := range 4 {
				w.fails("with", i, "1", "guard: passphrase_needed: ")
			}
			w.fails("with", 4, "0", "UNVERIFIED") // lowering needs none
			if state := w.state(s.id); state != "UNVERIFIED" {
				t.Errorf("the session is %s", state)
			}
			if operator := w.operate(statusOnly).Status.Broker.Assurance.Operator; operator != "passphrase" {
				t.Errorf("status says %q", operator)
			}

			if r := w.operate(wire.Control{Verb: wire.VerbPassphrase, Passphrase: "words of the operator"}); r.Error != nil {
				t.Fatal(r.Error)
			}
			submit(s, w.plot("without", "guard approve "+s.id))
			w.let("without")
			w.fails("without", 0, "0", "VERIFIED") // the limit
			if operator := w.operate(statusOnly).Status.Broker.Assurance.Operator; operator != "cooperative" {
				t.Errorf("status says %q, and so promises what isn't so", operator)
			}
		})
	}
}

// TestAttack27_GuessedPassphrase: a helper that has a terminal is asked, and has
// to know.
func TestAttack27_GuessedPassphrase(t *testing.T) {
	w := start(t)
	submit := w.tmux()
	s := w.ready(func(*shell) {})
	if r := w.operate(wire.Control{Verb: wire.VerbPassphrase, NewPassphrase: "words of the operator"}); r.Error != nil {
		t.Fatal(r.Error)
	}
	tmux := "tmux -S " + filepath.Join(w.Sandbox.Dir, "tmux")
	guess := filepath.Join(w.Sandbox.Dir, "guess")
	w.Must(os.WriteFile(guess, fmt.Appendf(nil, "%s approve %s 2>said-tty-0; echo $? >code-tty-0\n", w.Programs.Guard, s.id), 0o600))
	submit(s, tmux+` new-window -n guess "sh `+guess+`"`)
	pane := ""
	w.eventually("it is asked", func() bool {
		s.run(tmux + " capture-pane -p -t guess")
		pane = s.said()
		return strings.Contains(pane, "passphrase of guard's operator:")
	})
	s.must(s.run(tmux + ` send-keys -t guess "a good guess" Enter`))
	w.eventually("it ends", func() bool { _, err := os.Stat(filepath.Join(w.Sandbox.Dir, "code-tty-0")); return err == nil })
	w.eventually("it has said why", func() bool { return strings.TrimSpace(w.file("code-tty-0")) != "" })
	w.fails("tty", 0, "1", "guard: passphrase_wrong: ")
	if state := w.state(s.id); state != "UNVERIFIED" {
		t.Errorf("the session is %s", state)
	}
}
