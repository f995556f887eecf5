package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// program is the real gate, built as the Makefile builds it.
var program string

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "hooks" { // a gate has become this
		data, _ := os.ReadFile("/proc/self/status")
		groups := regexp.MustCompile(`(?m)^Gid:\t(\d+)\t(\d+)\t(\d+)`).FindStringSubmatch(string(data))
		fmt.Print(strings.Join(groups[1:], " "))
		syscall.Exit(2)
	}
	switch os.Getenv("GATE_TEST_CHILD") {
	case "panic":
		syscall.Exit(run(func(call, []byte) (reply, string) { panic("test") }))
	case "speak":
		syscall.Exit(speak(os.Getenv("GATE_TEST_SOCKET")))
	case "listen":
		syscall.Exit(listenOnly(os.Getenv("GATE_TEST_SOCKET")))
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gate")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program = filepath.Join(dir, "guard-gate")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-buildmode=exe", "-ldflags=-s -w -buildid=", "-o", program, "../cmd/guard-gate")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the gate: %v\n%s", err, out)
		return 3
	}
	return m.Run()
}

// speak writes a payload, says no more, and stays until its own stdin ends.
func speak(socket string) int {
	conn, err := net.Dial("unix", socket)
	if err == nil {
		_, err = conn.Write([]byte(payload))
	}
	if err == nil {
		err = conn.(*net.UnixConn).CloseWrite()
	}
	if err == nil {
		_, err = io.Copy(io.Discard, os.Stdin)
	}
	if err != nil {
		return 1
	}
	return 0
}

const payload = `{"hook_event_name":"PreToolUse","session_id":"s1","tool_name":"Bash","tool_input":{"command":"id"}}`

// private returns a directory that the gate trusts, with a path short enough
// for a socket's name.
func private(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "g")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// script is what a fake broker does with one connection, whose request it has
// read when request is not nil.
type script func(conn *net.UnixConn, request *wire.Request)

// broker serves script on a socket and records what it was asked.
type broker struct {
	socket   string
	mu       sync.Mutex
	requests []wire.Request
	raw      [][]byte
	conns    int
}

// serve starts a broker that reads each request before it plays its script.
func serve(t *testing.T, play script) *broker {
	t.Helper()
	b := &broker{socket: filepath.Join(private(t), "broker.sock")}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: b.socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			wg.Add(1)
			go func() {
				defer wg.Done()
				defer func() { _ = conn.Close() }()
				play(conn, b.read(conn))
			}()
		}
	}()
	return b
}

func (b *broker) read(conn *net.UnixConn) *wire.Request {
	b.mu.Lock()
	b.conns++
	b.mu.Unlock()
	var raw bytes.Buffer
	r := teeReader{conn, &raw}
	h, err := wire.ReadHeader(r, wire.Limits{Control: wire.MaxControl, Body: wire.MaxPayload})
	if err != nil {
		return nil
	}
	req, err := wire.ReadBody(r, h)
	if err != nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests, b.raw = append(b.requests, req), append(b.raw, raw.Bytes())
	return &req
}

func (b *broker) asked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.conns
}

// teeReader is io.TeeReader without its error wrapping.
type teeReader struct {
	r *net.UnixConn
	w *bytes.Buffer
}

func (t teeReader) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.w.Write(p[:n])
	return n, err
}

// answer is a script that replies with exactly these bytes.
func answer(b []byte) script {
	return func(conn *net.UnixConn, _ *wire.Request) { _, _ = conn.Write(b) }
}

func answerReply(r wire.Reply) script { return answer(wire.AppendReply(nil, r)) }

var pass = wire.Reply{Kind: wire.KindAnswer, Out: []byte("{}")}

func self() string { return strconv.Itoa(os.Getuid()) }

// hook returns the command of a hook entry.
func hook(socket, role string, more ...string) *exec.Cmd {
	args := append([]string{"claude", "--socket", socket, "--broker-uid", self(), "--role", role}, more...)
	return exec.Command(program, args...)
}

// result is what a host sees.
type result struct {
	out, err string
	exit     int
}

func (r result) String() string {
	return fmt.Sprintf("status %d, stdout %.200q, stderr %.200q", r.exit, r.out, r.err)
}

func runHook(t *testing.T, cmd *exec.Cmd, stdin string) result {
	t.Helper()
	if cmd.Stdin == nil {
		cmd.Stdin = strings.NewReader(stdin)
	}
	var out, errOut bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	cmd.Stderr = &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("running the gate: %v", err)
	}
	return result{out.String(), errOut.String(), cmd.ProcessState.ExitCode()}
}

var template = regexp.MustCompile(`^guard: [a-z_]+: [^:]+: .+\. Next: .+$`)

// wantDeny holds a result to the one form of the gate's own denials and returns
// the reason.
func wantDeny(t *testing.T, got result, code verdict.Code) string {
	t.Helper()
	if got.exit != exitDeny {
		t.Errorf("exit status %d, want 2; stderr %q", got.exit, got.err)
	}
	var doc struct {
		HookSpecificOutput struct{ HookEventName, PermissionDecision, PermissionDecisionReason string }
	}
	dec := json.NewDecoder(strings.NewReader(got.out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&doc); err != nil || dec.More() || int(dec.InputOffset()) != len(got.out) {
		t.Fatalf("stdout %q is not exactly one deny object: %v", got.out, err)
	}
	o := doc.HookSpecificOutput
	if o.HookEventName != "PreToolUse" || o.PermissionDecision != "deny" {
		t.Errorf("stdout %q denies no PreToolUse", got.out)
	}
	reason := o.PermissionDecisionReason
	if got.err != reason+"\n" {
		t.Errorf("stderr %q differs from the JSON's reason %q", got.err, reason)
	}
	if !strings.HasPrefix(reason, "guard: "+string(code)+": ") || !template.MatchString(reason) {
		t.Errorf("reason %q doesn't follow the template with code %s", reason, code)
	}
	if len(reason) > verdict.MaxReason {
		t.Errorf("reason has %d bytes", len(reason))
	}
	return reason
}
