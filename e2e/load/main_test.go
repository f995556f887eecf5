//go:build load

// Package load holds the broker against more than one machine should bring:
// 10,000 connections that say nothing, and 10,000 sessions whose anchors live.
// Broker and clients are real processes. One test runs at a time: each takes
// most of the machine's processes or descriptors.
package load

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/wire"
)

// bin is where the programs were built.
var bin string

func TestMain(m *testing.M) {
	runtime.LockOSThread() // children die with the thread that started them
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if bin, err = os.MkdirTemp("", "guard-load-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(bin) }()
	for _, args := range [][]string{
		{"go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin + "/", "../../cmd/guard", "../../cmd/guard-gate", "../../cmd/guard-broker"},
		{"musl-gcc", "-static", "-O2", "-s", "-Wall", "-Werror", "-o", filepath.Join(bin, "crowd"), "testdata/crowd.c"},
	} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building: %v\n%s", err, out)
			return 1
		}
	}
	return m.Run()
}

// broker is one in a process of its own.
type broker struct {
	t     *testing.T
	env   []string
	paths paths.Paths
	cmd   *exec.Cmd
	log   *bytes.Buffer
}

func start(t *testing.T, limits string) *broker {
	t.Helper()
	dir := t.TempDir()
	b := &broker{t: t, log: &bytes.Buffer{}}
	vars := map[string]string{"HOME": dir}
	for name, sub := range map[string]string{"XDG_CONFIG_HOME": "config", "XDG_STATE_HOME": "state", "XDG_RUNTIME_DIR": "run"} {
		vars[name] = filepath.Join(dir, sub)
		if err := os.MkdirAll(filepath.Join(dir, sub, "guard"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range vars {
		b.env = append(b.env, name+"="+value)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	config := "[identity]\nallow_root_sessions = true\n[limits]\n" + limits
	if err := os.WriteFile(filepath.Join(dir, "config/guard/guard.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := paths.Resolve(func(name string) string { return vars[name] }, uint32(os.Getuid()))
	if err != nil {
		t.Fatal(err)
	}
	b.paths = p
	b.cmd = b.command(filepath.Join(bin, "guard-broker"))
	b.cmd.Stderr = b.log
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.cmd.Process.Kill(); _ = b.cmd.Wait() })
	eventually(t, "the broker answers", func() bool { _, err := b.do(wire.Control{Verb: wire.VerbStatus}); return err == nil })
	return b
}

func (b *broker) command(argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = b.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func (b *broker) do(ctl wire.Control) (wire.Result, error) {
	return client.Dial(b.paths).Do(context.Background(), ctl, nil)
}

func (b *broker) sessions() []wire.Session {
	b.t.Helper()
	res, err := b.do(wire.Control{Verb: wire.VerbStatus})
	if err != nil {
		b.t.Fatal(err)
	}
	return res.Status.Sessions
}

// crowd is one that was started.
type crowd struct {
	t      *testing.T
	stdin  io.WriteCloser
	stdout *bufio.Reader
	cmd    *exec.Cmd
	ended  bool
}

func (b *broker) crowd(args ...string) *crowd {
	b.t.Helper()
	cmd := b.command(append([]string{filepath.Join(bin, "crowd")}, args...)...)
	cmd.Stderr = os.Stderr
	stdin, stdout := testproc.Piped(b.t, cmd)
	c := &crowd{t: b.t, stdin: stdin, stdout: bufio.NewReader(stdout), cmd: cmd}
	b.t.Cleanup(c.end)
	return c
}

// there is how many it has brought, once all are there.
func (c *crowd) there() int {
	c.t.Helper()
	line, err := c.stdout.ReadString('\n')
	n := 0
	if err == nil {
		n, err = strconv.Atoi(strings.TrimSpace(line))
	}
	if err != nil {
		c.t.Fatalf("crowd %v: %v", c.cmd.Args[1:], err)
	}
	return n
}

func (c *crowd) end() {
	if !c.ended {
		c.ended = true
		_ = c.stdin.Close()
		_ = c.cmd.Wait()
	}
}

// status reads a number of the broker's /proc/PID/status, in its own unit.
func (b *broker) status(key string) int {
	b.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.cmd.Process.Pid))
	if err != nil {
		b.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			n, err := strconv.Atoi(strings.Fields(value)[0])
			if err != nil {
				b.t.Fatal(err)
			}
			return n
		}
	}
	b.t.Fatalf("no %s in\n%s", key, text)
	return 0
}

func (b *broker) files() int {
	b.t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.cmd.Process.Pid))
	if err != nil {
		b.t.Fatal(err)
	}
	return len(entries)
}

// cpu is the time that the broker has run.
func (b *broker) cpu() time.Duration {
	b.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.cmd.Process.Pid))
	if err != nil {
		b.t.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// goroutines ends the broker with a dump of them and counts.
func (b *broker) goroutines() int {
	b.t.Helper()
	if err := b.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		b.t.Fatal(err)
	}
	_ = b.cmd.Wait()
	return bytes.Count(b.log.Bytes(), []byte("\ngoroutine "))
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never happened that %s", what)
		}
	}
}
