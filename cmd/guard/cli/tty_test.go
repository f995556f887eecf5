package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/testproc"
)

// terminal is a pseudo-terminal: a test types at one end, a command has the
// other as its controlling terminal.
type terminal struct {
	t        *testing.T
	ptm, pts *os.File

	mu   sync.Mutex
	text bytes.Buffer
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	ptm, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	x := &terminal{t: t, ptm: ptm}
	var n int
	err = errors.Join(onFd(ptm, func(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0) }),
		onFd(ptm, func(fd int) (err error) { n, err = unix.IoctlGetInt(fd, unix.TIOCGPTN); return err }))
	if err == nil {
		x.pts, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(x, ptm) })
	t.Cleanup(func() { x.pts.Close(); ptm.Close(); reading.Wait() })
	return x
}

// Write keeps what the terminal shows.
func (x *terminal) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.Write(p)
}

func (x *terminal) shown() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.String()
}

// answer waits for a question that is shown once more, and types. While it is
// asked the terminal doesn't echo.
func (x *terminal) answer(question, text string) {
	x.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !strings.Contains(x.shown(), question) {
		if time.Now().After(deadline) {
			x.t.Fatalf("the terminal shows %q, and not %q", x.shown(), question)
		}
		time.Sleep(time.Millisecond)
	}
	if x.echo() {
		x.t.Errorf("at %q the terminal echoes", question)
	}
	x.mu.Lock()
	x.text.Reset()
	x.mu.Unlock()
	if _, err := x.ptm.WriteString(text); err != nil {
		x.t.Fatal(err)
	}
}

func (x *terminal) echo() (on bool) {
	err := onFd(x.pts, func(fd int) error {
		tios, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil {
			on = tios.Lflag&unix.ECHO != 0
		}
		return err
	})
	if err != nil {
		x.t.Fatal(err)
	}
	return on
}

// typed is a command in the terminal. Its stdin is not the terminal, and holds
// what must not be taken for an answer.
type typed struct {
	*exec.Cmd
	x           *terminal
	out, stderr bytes.Buffer
}

func (x *terminal) start(h home, args ...string) *typed {
	x.t.Helper()
	c := &typed{Cmd: exec.Command("guard", args...), x: x}
	c.Env, c.Stdin = append(os.Environ(), h.env...), strings.NewReader(strings.Repeat("words from stdin\n", 4))
	c.Env = append(c.Env, "GUARD_PASSPHRASE=words from the environment")
	c.Stdout, c.Stderr = &c.out, &c.stderr
	c.ExtraFiles, c.SysProcAttr = []*os.File{x.pts}, &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 3}
	if err := c.Start(); err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() {
		if c.ProcessState == nil {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	})
	return c
}

// end waits for the command, and holds it to its exit code and its words. The
// terminal echoes again, and has shown no secret.
func (c *typed) end(code int, says string) {
	c.x.t.Helper()
	_ = c.Wait() // the code says it
	all := c.out.String() + c.stderr.String()
	if c.ProcessState.ExitCode() != code || !strings.Contains(all, says) {
		c.x.t.Errorf("%q: exit %d, stdout %q, stderr %q; want %d and %q", c.Args, c.ProcessState.ExitCode(), &c.out, &c.stderr, code, says)
	}
	if !c.x.echo() {
		c.x.t.Errorf("%q left a terminal that doesn't echo", c.Args)
	}
	if shown := c.x.shown(); strings.Contains(all+shown, "words") {
		c.x.t.Errorf("%q shows a secret: %q on the terminal, %q", c.Args, shown, all)
	}
}

// gated starts a session that has asked its gate once, and returns its id.
func (h home) gated(t *testing.T) string {
	t.Helper()
	// The broker may not have noticed the start when the first question comes.
	script := fmt.Sprintf(`until printf %%s '{"hook_event_name":"PreToolUse","session_id":"h","tool_name":"Read","tool_input":{}}' |
guard-gate claude --socket %s --broker-uid %d --role decide 2>/dev/null; do sleep 0.01; done; echo; echo "$GUARD_SESSION"; exec cat`, h.paths.BrokerSocket, uid())
	cmd := exec.Command("guard", "launch", "exec", "--", "/bin/sh", "-c", script)
	cmd.Env, cmd.Stderr = append(os.Environ(), h.env...), os.Stderr
	in, out := testproc.Piped(t, cmd)
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	id := ""
	for lines := bufio.NewScanner(out); id == "" && lines.Scan(); {
		if line := lines.Text(); len(line) == 16 {
			id = line
		}
	}
	return id
}

const (
	theQuestion = "passphrase of guard's operator: "
	newQuestion = "new passphrase (at least 8 characters): "
	repeat      = "the same again: "
)

// TestPassphraseOnTerminal: it is set, asked for, changed and removed on the
// terminal alone, without being shown.
func TestPassphraseOnTerminal(t *testing.T) {
	h, x := newHome(t), newTerminal(t)
	if got := h.guard("", "init", "--self", "none", "--allow-root-sessions"); got.code != ExitDone {
		t.Fatalf("%+v", got)
	}
	t.Cleanup(func() { x.start(h, "broker", "stop").end(ExitDone, "") })
	id := h.gated(t)
	x.start(h, "approve", id).end(ExitDone, "VERIFIED") // none is set

	c := x.start(h, "init", "--passphrase")
	x.answer(newQuestion, "short\n")
	x.answer(newQuestion, "words of the first\n")
	x.answer(repeat, "words of another\n")
	x.answer(newQuestion, "words of the first\n")
	x.answer(repeat, "words of the first\n")
	c.end(ExitDone, "passphrase set")
	x.start(h, "status").end(ExitDone, "operator passphrase (")

	c = x.start(h, "approve", id)
	x.answer(theQuestion, "words of the first\n")
	c.end(ExitDone, "VERIFIED")
	c = x.start(h, "approve", id)
	x.answer(theQuestion, "words that are wrong\n")
	c.end(ExitRefused, "passphrase_wrong: ")
	c = x.start(h, "approve", id)
	x.answer(theQuestion, "\n")
	c.end(ExitRefused, "passphrase_needed: ")
	x.start(h, "revoke", id).end(ExitDone, "UNVERIFIED")
	x.start(h, "audit", "verify").end(ExitDone, "chain: good")

	c = x.start(h, "init", "--passphrase")
	x.answer(theQuestion, "words of the first\n")
	x.answer(newQuestion, "words of the second\n")
	x.answer(repeat, "words of the second\n")
	c.end(ExitDone, "passphrase set")
	x.start(h, "broker", "restart").end(ExitDone, "broker runs")
	c = x.start(h, "init", "--no-passphrase")
	x.answer(theQuestion, "words of the first\n")
	c.end(ExitRefused, "passphrase_wrong: ")
	c = x.start(h, "init", "--no-passphrase")
	x.answer(theQuestion, "words of the second\n")
	c.end(ExitDone, "passphrase removed")
	x.start(h, "init", "--no-passphrase").end(ExitDone, "no passphrase is set")
	h.holdsNo(t, "words of")
}

// holdsNo makes sure that no file of guard's has the text.
func (h home) holdsNo(t *testing.T, text string) {
	t.Helper()
	err := filepath.WalkDir(h.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) {
			t.Errorf("%s has %q", path, text)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestQuestionEnds: whatever ends the question, the terminal is as it was.
func TestQuestionEnds(t *testing.T) {
	h, x := newHome(t), newTerminal(t)
	if got := h.guard("", "init", "--self", "none"); got.code != ExitDone {
		t.Fatalf("%+v", got)
	}
	t.Cleanup(func() { x.start(h, "broker", "stop").end(ExitDone, "") })
	for _, keys := range []string{"words\x03", "words\x1c", "words\x1a"} { // Ctrl-C, Ctrl-\, Ctrl-Z
		c := x.start(h, "init", "--passphrase")
		x.answer(newQuestion, keys)
		c.end(ExitUnfinished, "interrupted at the question")
	}
	for _, sig := range endings {
		c := x.start(h, "init", "--passphrase")
		x.answer(newQuestion, "")
		if err := c.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		c.end(ExitUnfinished, "interrupted at the question")
	}
	c := x.start(h, "init", "--passphrase")
	x.answer(newQuestion, "\x04")
	c.end(ExitUnfinished, "EOF")
	c = x.start(h, "init", "--passphrase")
	x.answer(newQuestion, strings.Repeat("words ", 400)+"\n") // and what is too long doesn't go to the shell
	c.end(ExitUnfinished, "more than")
	c = x.start(h, "init", "--passphrase")
	for range tries {
		x.answer(newQuestion, "short\n")
	}
	c.end(ExitUnfinished, "nothing was changed")
	if n := waiting(x); n != 0 {
		t.Errorf("%d bytes are left on the terminal for whoever reads next", n)
	}
}

func waiting(x *terminal) (n int) {
	if err := onFd(x.pts, func(fd int) (err error) { n, err = unix.IoctlGetInt(fd, unix.TIOCINQ); return err }); err != nil {
		x.t.Fatal(err)
	}
	return n
}

// TestNoTerminalNoPassphrase: without a terminal nothing is asked and nothing
// read, from stdin neither.
func TestNoTerminalNoPassphrase(t *testing.T) {
	h, x := newHome(t), newTerminal(t)
	if got := h.guard("", "init", "--self", "none", "--allow-root-sessions"); got.code != ExitDone {
		t.Fatalf("%+v", got)
	}
	t.Cleanup(func() { x.start(h, "broker", "stop").end(ExitDone, "") })
	id := h.gated(t)
	c := x.start(h, "init", "--passphrase")
	x.answer(newQuestion, "words from stdin\n")
	x.answer(repeat, "words from stdin\n")
	c.end(ExitDone, "passphrase set")
	for _, args := range [][]string{{"approve", id}, {"verify", id}, {"init", "--passphrase"}, {"init", "--no-passphrase"}} {
		cmd := exec.Command("guard", args...)
		cmd.Env, cmd.Stdin = append(os.Environ(), h.env...), strings.NewReader("words from stdin\nwords from stdin\n")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != ExitRefused || !strings.HasPrefix(string(out), "guard: passphrase_needed: ") || !strings.Contains(string(out), "Next: run the command on a terminal") {
			t.Errorf("%q: exit %d, %s", args, cmd.ProcessState.ExitCode(), out)
		}
	}
}

// TestTypedAheadIsDropped: what was typed before the question is no answer.
func TestTypedAheadIsDropped(t *testing.T) {
	h, x := newHome(t), newTerminal(t)
	if got := h.guard("", "init", "--self", "none"); got.code != ExitDone {
		t.Fatalf("%+v", got)
	}
	t.Cleanup(func() { x.start(h, "broker", "stop").end(ExitDone, "") })
	if _, err := x.ptm.WriteString("typed ahead\ntyped ahead\n"); err != nil {
		t.Fatal(err)
	}
	for waiting(x) == 0 {
		time.Sleep(time.Millisecond)
	}
	c := x.start(h, "init", "--passphrase")
	x.answer(newQuestion, "words for it\n")
	x.answer(repeat, "words for it\n")
	c.end(ExitDone, "passphrase set")
}
