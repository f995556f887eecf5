package launcher

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
	host "leaseguard.internal/launcher/runtime"
)

const nonce = "0123456789abcdef"

// launchClaude is guard launch claude in the test binary's own clothes, or
// claudex.
func launchClaude(argv []string) int {
	p, err := paths.Resolve(os.Getenv, uint32(os.Getuid()))
	if err == nil {
		err = Agent(context.Background(), cmp.Or(os.Getenv("TEST_RUNTIME"), "claude"), AgentLaunch{
			Launch: Launch{Paths: p, Argv: argv, Env: os.Environ(), Warn: func(w string) { fmt.Fprintln(os.Stderr, "warning:", w) }},
		})
	}
	fmt.Fprintln(os.Stderr, err)
	return 3
}

// playClient stands in for the client. What it does in a proof is TEST_CLIENT's.
func playClient() int {
	if slices.Contains(os.Args, "--version") {
		fmt.Println("2.1.332 (Claude Code)")
		return 0
	}
	if slices.Contains(os.Args, "report") {
		return report()
	}
	text, isError := "PreToolUse:Bash hook error: guard: proving: judging \"Bash\": nonce "+nonce+". Next: wait", true
	switch os.Getenv("TEST_CLIENT") {
	case "runs":
		text, isError = "done", false
	case "lies":
		isError = false
	case "other":
		text = strings.ReplaceAll(text, nonce, "fedcba9876543210")
	case "quits":
		fmt.Fprintln(os.Stderr, "not logged in")
		return 7
	case "spawns":
		// A grandchild in a session of its own, whose parent has ended.
		cmd := exec.Command("/bin/sh", "-c", `setsid sh -c 'trap "" HUP INT TERM; echo $$ >"$HOME/.orphan"; mv "$HOME/.orphan" "$HOME/orphan"; exec sleep 1000' & exit 0`)
		_ = cmd.Run()
		for _, err := os.Stat(os.Getenv("HOME") + "/orphan"); err != nil; _, err = os.Stat(os.Getenv("HOME") + "/orphan") {
			time.Sleep(time.Millisecond)
		}
	case "tidies":
		lock := os.Getenv("HOME") + "/lock"
		if err := os.Mkdir(lock, 0o700); err != nil {
			return 1
		}
		defer func() {
			time.Sleep(100 * time.Millisecond) // a client that is killed at once never gets here
			_ = os.Remove(lock)
		}()
	case "hangs":
		time.Sleep(time.Hour)
	}
	for _, messages := range []string{
		`{"role":"user","content":"x"}`,
		`{"role":"assistant","content":[{"type":"tool_use","id":"toolu_guard_0001","name":"Bash","input":{}}]},
		 {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_guard_0001","is_error":` + fmt.Sprint(isError) + `,"content":` + fmt.Sprintf("%q", text) + `}]}`,
	} {
		if err := ask(messages); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

func ask(messages string) error {
	body := `{"model":"m","messages":[` + messages + `],"tools":[{"name":"Bash"},{"name":"bash"}]}`
	req, err := http.NewRequest(http.MethodPost, os.Getenv("ANTHROPIC_BASE_URL")+"/v1/messages", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("x-api-key", os.Getenv("ANTHROPIC_API_KEY"))
	res, err := (&http.Client{}).Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

// copied puts the test binary itself, not a link, under the names of guard's
// programs and of the client.
func (f fixture) copied(t *testing.T) fixture {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(f.dir, "bin")
	if err := os.Mkdir(filepath.Join(bin, "client"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.runtime = filepath.Join(bin, "client", "claude")
	for _, path := range []string{filepath.Join(bin, "guard"), f.runtime} {
		if err := os.WriteFile(path, text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(bin, "guard-gate"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.launch = filepath.Join(bin, "guard")
	f.env = append(f.env, "PATH="+filepath.Dir(f.runtime)+":/usr/bin:/bin")
	return f
}

// verbs is what a scripted broker was asked for.
type verbs struct {
	asked chan wire.Control
	fresh bool // its answer to proof_known
	deaf  bool // it has not heard the gate when the proof is done
}

// claudeBroker answers registrations and proofs, each on its own connection.
func (f fixture) claudeBroker(t *testing.T, script verbs) *verbs {
	t.Helper()
	script.asked = make(chan wire.Control, 16)
	v := &script
	for _, socket := range []string{f.paths.OperatorSocket, f.paths.BrokerSocket} {
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go v.serve(conn)
			}
		}()
	}
	return v
}

func (v *verbs) serve(conn net.Conn) {
	defer conn.Close()
	h, err := wire.ReadHeader(conn, wire.Limits{Control: wire.MaxControl})
	if err != nil {
		return // a look whether a broker listens
	}
	req, err := wire.ReadBody(conn, h)
	var ctl wire.Control
	if err != nil || json.Unmarshal(req.Control, &ctl) != nil {
		return
	}
	v.asked <- ctl
	res := wire.Result{Proof: &wire.Proof{Fresh: v.fresh || ctl.Verb == wire.VerbProofDone}}
	switch {
	case v.deaf && ctl.Verb == wire.VerbProofDone:
		res = wire.Result{Error: &wire.Error{Code: string(verdict.BadRequest), Message: "guard: bad_request: the gate was not heard"}}
	case ctl.Verb == wire.VerbRegister:
		res = wire.Result{Session: &wire.Session{ID: "s1", Generation: 7}, Launch: &wire.Launch{Nonce: nonce, Server: "guard-fedcba9876543210"}}
	}
	text, err := json.Marshal(res)
	if err != nil {
		return
	}
	_, _ = conn.Write(wire.AppendReply(nil, wire.Reply{Kind: wire.KindResult, Out: text}))
	_, _ = io.Copy(io.Discard, conn) // until the launcher lets go
}

// start launches the scripted client to its end.
func (f fixture) start(t *testing.T, env []string, args ...string) (string, string, int) {
	t.Helper()
	cmd := exec.Command(f.launch, args...)
	cmd.Dir, cmd.Env = f.dir, append(slices.Clone(f.env), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

func TestClaude(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		t.Run(fmt.Sprintf("proved before %v", fresh), func(t *testing.T) {
			f := newFixture(t).copied(t)
			v := f.claudeBroker(t, verbs{fresh: fresh})
			servers := `{"mcpServers":{"vs":{"command":"/s","env":{"SECRET":"s3cret","LD_X":"1"}}}}`
			if err := os.WriteFile(filepath.Join(f.dir, ".claude.json"), []byte(servers), 0o600); err != nil {
				t.Fatal(err)
			}
			env := []string{"TEST_CLIENT=", "CLAUDE_CODE_SIMPLE=1", "BASH_ENV=/x", "ANTHROPIC_API_KEY=mine"}
			if fresh {
				env[0] = "TEST_CLIENT=runs" // it isn't asked
			}
			stdout, stderr, code := f.start(t, env, "report", "", "a\nb", "\xff")
			if code != 42 {
				t.Fatalf("exit %d: %s", code, stderr)
			}
			if !strings.Contains(stderr, "warning: dropped from the environment: BASH_ENV, CLAUDE_CODE_SIMPLE, LD_X\n") {
				t.Errorf("stderr %q", stderr)
			}
			checkClaude(t, f, stdout)
			checkVerbs(t, f, v, fresh)
		})
	}
}

// checkClaude looks at what the client found around itself.
func checkClaude(t *testing.T, f fixture, text string) {
	t.Helper()
	view, args := readView(t, f, []byte(text), "ANTHROPIC_API_KEY=mine", "DISABLE_AUTOUPDATER=1")
	if len(args) != 10 || args[0] != "claude" || !slices.Equal(args[6:], []string{"report", "", "a\nb", "\xff"}) {
		t.Fatalf("arguments %q", args)
	}
	if strings.Contains(strings.Join(args, "\n"), "s3cret") || !strings.Contains(args[1], "mcp__guard-fedcba9876543210__recover") {
		t.Errorf("arguments %q", args)
	}
	file := strings.TrimPrefix(args[5], "--mcp-config=")
	if want := fmt.Sprintf("%s/sessions/s1/mcp-%d-", f.paths.RunDir, view.PID); !strings.HasPrefix(file, want) {
		t.Errorf("the list of servers is %q, want %q…", file, want)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the list of servers: %v, %v", info, err)
	}
}

func checkVerbs(t *testing.T, f fixture, v *verbs, fresh bool) {
	t.Helper()
	reg := <-v.asked
	if reg.Register == nil || reg.Register.Runtime != "claude" || reg.Register.Command != f.runtime || reg.Register.Unattended {
		t.Errorf("registered %+v", reg.Register)
	}
	known := <-v.asked
	if known.Verb != wire.VerbProofKnown || len(known.Digest) != 64 {
		t.Errorf("asked %+v", known)
	}
	if fresh {
		if len(v.asked) != 0 {
			t.Errorf("asked %+v", <-v.asked)
		}
		return
	}
	if done := <-v.asked; done.Verb != wire.VerbProofDone || done.Digest != known.Digest {
		t.Errorf("asked %+v, want %s of the same digest", done, wire.VerbProofDone)
	}
}

// TestClaudeUnproved: only a denial with this launch's nonce lets the client be
// executed, and only once the broker keeps the proof.
func TestClaudeUnproved(t *testing.T) {
	for mode, want := range map[string]string{
		"runs": `came back without the gate's denial of this launch: "done"`, "lies": "without the gate's denial", "other": "fedcba9876543210",
		"quits": `exit status 7) after 0 requests to its model: it said "not logged in"`,
	} {
		t.Run(mode, func(t *testing.T) {
			f := newFixture(t).copied(t)
			v := f.claudeBroker(t, verbs{})
			stdout, stderr, code := f.start(t, []string{"TEST_CLIENT=" + mode}, "report")
			if code != 3 || stdout != "" || !strings.HasPrefix(stderr, "guard: wiring_unproved: ") || !strings.Contains(stderr, want) {
				t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
			}
			for len(v.asked) > 0 {
				if ctl := <-v.asked; ctl.Verb == wire.VerbProofDone {
					t.Error("the proof was told to be done")
				}
			}
		})
	}
}

// TestClaudeUnheard: a denial with the right nonce that the broker didn't give to
// the gate itself, such as by a program in between, is no proof.
func TestClaudeUnheard(t *testing.T) {
	f := newFixture(t).copied(t)
	f.claudeBroker(t, verbs{deaf: true})
	stdout, stderr, code := f.start(t, []string{"TEST_CLIENT="}, "report")
	if code != 3 || stdout != "" || !strings.HasPrefix(stderr, "guard: wiring_unproved: ") || !strings.Contains(stderr, filepath.Join(filepath.Dir(f.launch), "guard-gate")) {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// TestProofLetsTheClientEnd: what it holds under a lock of its own is let go.
func TestProofLetsTheClientEnd(t *testing.T) {
	f := newFixture(t).copied(t)
	f.claudeBroker(t, verbs{})
	if _, stderr, code := f.start(t, []string{"TEST_CLIENT=tidies"}, "report"); code != 42 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "lock")); err == nil {
		t.Error("the client was killed while it held its lock")
	}
}

// TestProofLeavesNothing: what the client started ends with the proof, also
// what left its session, while older children of this process live on, and their
// orphans.
func TestProofLeavesNothing(t *testing.T) {
	f := newFixture(t).copied(t)
	f.claudeBroker(t, verbs{})
	// The job's own orphan comes to this process while the proof runs.
	script := `(setsid sleep 1000 & echo $! >"$HOME/jobs-orphan"; while ! [ -e "$HOME/orphan" ]; do sleep 0.01; done) >/dev/null 2>&1 &
sleep 1000 >/dev/null 2>&1 & echo $! >"$HOME/job"; exec "$0" report`
	cmd := exec.Command("/bin/sh", "-c", script, f.launch)
	cmd.Dir, cmd.Env = f.dir, append(slices.Clone(f.env), "TEST_CLIENT=spawns")
	if out, err := cmd.Output(); cmd.ProcessState.ExitCode() != 42 {
		t.Fatalf("launch: %v, %s", err, out)
	}
	if pid := readPID(t, f.dir+"/orphan"); unix.Kill(pid, 0) == nil {
		t.Errorf("process %d of the proof lives on", pid)
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	for _, name := range []string{"job", "jobs-orphan"} {
		if err := unix.Kill(readPID(t, filepath.Join(f.dir, name)), unix.SIGKILL); err != nil {
			t.Errorf("the shell's own %s was ended with the proof: %v", name, err)
		}
	}
}

func readPID(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

// TestProofEnds: a client that hangs is ended when the time is over.
func TestProofEnds(t *testing.T) {
	f := newFixture(t).copied(t)
	c, err := host.Find(host.Search{Program: host.ClaudeProgram, File: f.runtime})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	p := proof{runtime: "claude", path: c.Path, ask: mutator, nonce: nonce, command: func(string, string) ([]string, []string) {
		return nil, append(slices.Clone(f.env), "TEST_CLIENT=hangs")
	}}
	err = p.run(ctx)
	var refused *wire.Error
	if !errors.As(err, &refused) || refused.Code != "wiring_unproved" || !strings.Contains(refused.Message, "didn't come back") {
		t.Errorf("proof: %v", err)
	}
	if left, err := children(); err != nil || len(left) != 0 {
		t.Errorf("children left: %v, %v", left, err)
	}
}

// TestPrivateFilesAreSwept: a launch removes what ended sessions have read, and
// nothing of those that live.
func TestPrivateFilesAreSwept(t *testing.T) {
	root := filepath.Join(newFixture(t).dir, "sessions")
	start, err := startTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]bool{ // stays
		fmt.Sprintf("live/mcp-%d-%d.json", os.Getpid(), start):     true,
		fmt.Sprintf("reused/mcp-%d-%d.json", os.Getpid(), start+1): false,
		"gone/mcp-4194304-1.json":                                  false,
		"other/notes.txt":                                          true,
		"odd/mcp-x-y.json":                                         true,
	}
	for name := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path, err := privateFile(root, "new", "mcp.json", []byte("text"))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "text" {
		t.Errorf("wrote %q, %v", text, err)
	}
	for name, stays := range files {
		if _, err := os.Stat(filepath.Join(root, name)); (err == nil) != stays {
			t.Errorf("%s: %v, want it to stay: %v", name, err, stays)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "gone")); err == nil {
		t.Error("an empty directory stays")
	}
}
