package tree

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/testproc"
)

// play tells a copy of the test program what to be.
const play = "LEASEGUARD_TREE"

func TestMain(m *testing.M) {
	switch os.Getenv(play) {
	case "anchor":
		unix.Exit(anchorMain()) // without the second that the race detector waits at an exit
	case "ender":
		unix.Exit(enderMain())
	}
	goleak.VerifyTestMain(m)
}

// anchorMain is a session's anchor: it takes in orphans and starts a shell for
// each line that it reads, reaping nothing but those.
func anchorMain() int {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_ = os.Unsetenv(play)
	lines := bufio.NewScanner(os.Stdin)
	for fmt.Println("ready"); lines.Scan(); fmt.Println("done") {
		if lines.Text() == "renounce" {
			_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
			continue
		}
		cmd := exec.Command("/bin/sh", "-c", lines.Text())
		if err := cmd.Start(); err == nil {
			go func() { _ = cmd.Wait() }()
		}
	}
	return 0
}

// enderMain ends the tree of the process whose number it reads, and says how
// that went.
func enderMain() int {
	var pid int
	if _, err := fmt.Scan(&pid); err != nil {
		return 1
	}
	anchor, err := peer.Open(pid)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	out := End(context.Background(), Target{Anchor: anchor})[0]
	fmt.Println(out.Killed, out.Left, out.Err)
	return 0
}

// grove is the tree of one test.
type grove struct {
	*testing.T
	anchor *peer.Process
	in     io.WriteCloser
	out    *bufio.Scanner
	cmd    *exec.Cmd
	dir    string
	mark   string // an argument of all the sleepers
}

// newGrove starts an anchor. Everything below it ends with the test.
func newGrove(t *testing.T) *grove {
	t.Helper()
	g := &grove{T: t, dir: t.TempDir()}
	g.mark = fmt.Sprintf("100%d.%d", os.Getpid(), time.Now().UnixNano()%1_000_000_000)
	g.must(os.WriteFile(filepath.Join(g.dir, "go"), nil, 0o600))
	g.cmd = copyOf("anchor")
	in, out := testproc.Piped(g.T, g.cmd)
	g.in, g.out = in, bufio.NewScanner(out)
	var err error
	g.anchor, err = peer.Open(g.cmd.Process.Pid)
	g.must(err)
	t.Cleanup(func() {
		_ = os.Remove(filepath.Join(g.dir, "go"))
		End(context.Background(), Target{Anchor: g.anchor})
		_ = in.Close()
		_ = g.cmd.Wait()
		_ = g.anchor.Close()
		for _, pid := range g.sleepers() { // of a test that failed
			if p, err := peer.Open(pid); err == nil {
				_ = p.Signal(unix.SIGKILL)
				_ = p.Close()
			}
		}
	})
	g.said("ready")
	return g
}

func copyOf(what string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env, cmd.Stderr = append(os.Environ(), play+"="+what), os.Stderr
	return cmd
}

func (g *grove) must(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

func (g *grove) said(want string) {
	g.Helper()
	if !g.out.Scan() || g.out.Text() != want {
		g.Fatalf("the anchor said %q, %v; want %q", g.out.Text(), g.out.Err(), want)
	}
}

// run has the anchor start a shell. SLEEP sleeps and can be found, GO is a file
// that is there while the test lasts.
func (g *grove) run(script string) {
	g.Helper()
	script = strings.NewReplacer("SLEEP", "sleep "+g.mark, "GO", filepath.Join(g.dir, "go"), "DIR", g.dir).Replace(script)
	_, err := fmt.Fprintln(g.in, strings.ReplaceAll(script, "\n", " "))
	g.must(err)
	g.said("done")
}

// sleepers are the processes that sleep in this test's name.
func (g *grove) sleepers() (pids []int) {
	entries, err := os.ReadDir("/proc")
	g.must(err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && bytes.Equal(text, []byte("sleep\x00"+g.mark+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// grown waits until so many sleep.
func (g *grove) grown(n int) []int {
	g.Helper()
	var pids []int
	eventually(g.T, fmt.Sprint(n, " processes sleep"), func() bool { pids = g.sleepers(); return len(pids) == n })
	return pids
}

func (g *grove) target() Target { return Target{Anchor: g.anchor} }

func (g *grove) end(t Target) Outcome {
	g.Helper()
	out := End(context.Background(), t)[0]
	if out.Err != nil {
		g.Fatalf("ending the tree: %v", out.Err)
	}
	return out
}

// standing wants the anchor alive and nobody asleep.
func (g *grove) standing() {
	g.Helper()
	if left := g.sleepers(); len(left) > 0 {
		g.Errorf("processes %v are left", left)
	}
	if !g.anchor.Alive() {
		g.Error("the anchor was ended too")
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never happened that %s", what)
		}
	}
}

// as gives a copy of the test program another user, and the capabilities.
func as(cmd *exec.Cmd, uid uint32, caps ...uintptr) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}, AmbientCaps: caps}
}
