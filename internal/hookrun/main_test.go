package hookrun

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

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/wire"
)

// The test binary is the runner too, and starts itself for each of many hooks.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "hooks" && os.Args[2] == "run" {
		status, err := Main(os.Stdout, os.Stderr)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		syscall.Exit(status) // the race detector's own end takes a second
	}
	os.Exit(m.Run())
}

const testPath = "/usr/local/bin:/usr/bin:/bin"

// line is what hooks read in most tests.
const line = `{"schema_version":1,"hook_event_name":"PreToolUse","session_id":"s","turn_id":"t","run_id":"r","tool_use_id":"u",` +
	`"tool_name":"Bash","tool_input":{"command":"git push"},"cwd":"/w","permission_mode":"default","origin":"provider"}` + "\n"

// runner is a runner of its own process, whose broker is the test.
type runner struct {
	t        *testing.T
	cmd      *exec.Cmd
	conn     *net.UnixConn
	out, err bytes.Buffer
	waited   bool
}

// start starts a runner. Of its surroundings it has what prepare leaves.
func start(t *testing.T, prepare ...func(*exec.Cmd)) *runner {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	mine, theirs := os.NewFile(uintptr(pair[0]), "broker"), os.NewFile(uintptr(pair[1]), "gate")
	defer func() { _, _ = mine.Close(), theirs.Close() }()
	conn, err := net.FileConn(mine)
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{t: t, conn: conn.(*net.UnixConn), cmd: exec.Command("/proc/self/exe")}
	r.cmd.Args = []string{"guard", "hooks", "run"}
	r.cmd.Env = []string{}
	r.cmd.ExtraFiles = []*os.File{theirs}
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.err
	for _, p := range prepare {
		p(r.cmd)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.conn.Close(); r.wait() })
	_ = r.conn.SetDeadline(time.Now().Add(time.Minute))
	return r
}

// wait returns the runner's exit status.
func (r *runner) wait() int {
	if !r.waited {
		_ = r.cmd.Wait()
		r.waited = true
	}
	return r.cmd.ProcessState.ExitCode()
}

// send gives the runner its job.
func (r *runner) send(job wire.HookJob, line string) {
	r.t.Helper()
	if _, err := wire.ReadHooks(r.conn, wire.KindHooksReady); err != nil {
		r.t.Fatal(err)
	}
	if job.Path == "" {
		job.Path = testPath
	}
	if job.TotalMS == 0 {
		job.TotalMS = 60_000
	}
	if job.AnswerMS == 0 {
		job.AnswerMS = 60_000
	}
	text, err := json.Marshal(job)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := wire.WriteHookJob(r.conn, text, []byte(line)); err != nil {
		r.t.Fatal(err)
	}
}

// results waits for what became of the hooks.
func (r *runner) results() []wire.HookResult {
	r.t.Helper()
	body, err := wire.ReadHooks(r.conn, wire.KindHookResults)
	if err != nil {
		r.t.Fatalf("%v; the runner said %q", err, r.err.String())
	}
	var res wire.HookResults
	if err := strictjson.Decode(body, &res); err != nil {
		r.t.Fatal(err)
	}
	return res.Results
}

// answer ends the exchange.
func (r *runner) answer(reply wire.Reply) int {
	r.t.Helper()
	if _, err := r.conn.Write(wire.AppendReply(nil, reply)); err != nil {
		r.t.Fatal(err)
	}
	return r.wait()
}

var pass = wire.Reply{Kind: wire.KindAnswer, Out: []byte("{}")}

// script is a hook of some lines of shell.
func script(t *testing.T, lines string) wire.Hook {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hook")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+lines+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return trusted(t, wire.Hook{ID: "h", Command: path, TimeoutMS: 20_000})
}

// trusted gives a hook the digests of what it runs now.
func trusted(t *testing.T, h wire.Hook) wire.Hook {
	t.Helper()
	files, err := Digest(h.Command, h.Args)
	if err != nil {
		t.Fatal(err)
	}
	h.Files = files
	if h.Args == nil {
		h.Args = []string{}
	}
	return h
}

// run runs hooks in a runner of their own, which then passes.
func run(t *testing.T, hooks ...wire.Hook) []wire.HookResult {
	t.Helper()
	return runJob(t, wire.HookJob{Hooks: hooks}, line)
}

func runJob(t *testing.T, job wire.HookJob, line string) []wire.HookResult {
	t.Helper()
	r := start(t)
	r.send(job, line)
	results := r.results()
	if len(results) != len(job.Hooks) {
		t.Fatalf("%d results of %d hooks", len(results), len(job.Hooks))
	}
	if status := r.answer(pass); status != 0 || r.out.String() != "{}" {
		t.Errorf("status %d, out %q, err %q", status, r.out.String(), r.err.String())
	}
	return results
}

// want compares the status, and looks for words in the reason.
func want(t *testing.T, r wire.HookResult, status wire.HookStatus, words ...string) {
	t.Helper()
	if r.Status != status {
		t.Errorf("status %s (%s), want %s", r.Status, r.Reason, status)
	}
	for _, w := range words {
		if !strings.Contains(r.Reason, w) {
			t.Errorf("reason %q doesn't hold %q", r.Reason, w)
		}
	}
}

// alive says whether a process is there and no zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// number reads a file that a hook writes, once it is there.
func number(t *testing.T, path string) (n int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		b, err := os.ReadFile(path)
		if err == nil && strings.HasSuffix(string(b), "\n") {
			if _, err := fmt.Sscan(string(b), &n); err == nil {
				return n
			}
		}
	}
	t.Fatalf("nothing has written %s", path)
	return 0
}
