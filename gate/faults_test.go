package gate

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

func TestStdinNeverClosed(t *testing.T) {
	t.Parallel()
	b := serve(t, answerReply(pass))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close(); _ = w.Close() }()
	_, _ = w.WriteString(payload)
	cmd := hook(b.socket, "decide", "--deadline", "1")
	cmd.Stdin = r
	wantDeny(t, runHook(t, cmd, ""), verdict.Deadline)
	if b.asked() != 0 {
		t.Errorf("the broker was asked about a payload whose end nobody saw")
	}
}

// TestP4_EarlyAnswerReadsStdin: the writer of 2 MB by raw writes sees no EPIPE,
// although the answer stands from the start.
func TestP4_EarlyAnswerReadsStdin(t *testing.T) {
	for name, cmd := range map[string]*exec.Cmd{
		"no broker":          hook(filepath.Join(private(t), "none.sock"), "decide"),
		"wrong command line": exec.Command(program, "claude", "--sockets", "x"),
		"observe, no broker": hook(filepath.Join(private(t), "none.sock"), "observe"),
	} {
		t.Run(name, func(t *testing.T) {
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			var out, errOut bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errOut
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			chunk := bytes.Repeat([]byte("w"), 4096)
			for i := 0; i < 2<<20/len(chunk); i++ {
				if _, err := stdin.Write(chunk); err != nil {
					t.Fatalf("write %d: %v", i, err)
				}
			}
			if err := stdin.Close(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			got := result{out.String(), errOut.String(), cmd.ProcessState.ExitCode()}
			switch {
			case strings.HasPrefix(name, "observe"):
				if got != (result{}) {
					t.Errorf("got %v, want silence", got)
				}
			case name == "no broker":
				wantDeny(t, got, verdict.BrokerUnavailable)
			default:
				wantDeny(t, got, verdict.Malformed)
			}
		})
	}
}

func TestStdinClosedOrUnreadable(t *testing.T) {
	b := serve(t, answerReply(pass))
	shell := func(redirect string) result {
		args := append([]string{"-c", `exec "$0" "$@" ` + redirect, program}, hook(b.socket, "decide").Args[1:]...)
		return runHook(t, exec.Command("sh", args...), "")
	}
	if got := shell("<&-"); got.exit != 0 || len(b.requests[0].Body) != 0 {
		t.Errorf("closed stdin: got %v, want the broker's answer to an empty payload", got)
	}
	wantDeny(t, shell("</"), verdict.BrokerUnavailable) // EISDIR
}

// What the broker wants said and nobody can hear is a deny: an ask that gets lost
// would let the tool run. Go puts the null device in a closed stdout's place.
func TestStdoutClosed(t *testing.T) {
	silent := wire.Reply{Kind: wire.KindAnswer}
	for _, tt := range []struct {
		name, redirect, role string
		reply                wire.Reply
		want                 int
	}{
		{"an answer and no stdout", ">&-", "decide", pass, exitDeny},
		{"an answer for the null device", ">/dev/null", "decide", pass, exitDeny},
		{"nothing to say and no stdout", ">&-", "decide", silent, 0},
		{"an answer and no stderr", "2>&-", "decide", pass, 0},
		{"an observer without stdout", ">&-", "observe", pass, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := serve(t, answerReply(tt.reply))
			args := append([]string{"-c", `exec "$0" "$@" ` + tt.redirect, program}, hook(b.socket, tt.role).Args[1:]...)
			got := runHook(t, exec.Command("sh", args...), payload)
			if got.exit != tt.want || (got.err != "") != (tt.want != 0) || b.asked() != 1 {
				t.Errorf("got %v of %d connections, want status %d, and why", got, b.asked(), tt.want)
			}
		})
	}
}

// TestF3_ExitStatus: no fault ends in anything but status 2 or an answer.
func TestF3_ExitStatus(t *testing.T) {
	b := serve(t, answerReply(pass))
	t.Run("panic", func(t *testing.T) {
		cmd := hook(b.socket, "decide")
		cmd.Path = os.Args[0]
		cmd.Env = append(os.Environ(), "GATE_TEST_CHILD=panic")
		wantDeny(t, runHook(t, cmd, payload), verdict.Internal)
		cmd = hook(b.socket, "observe")
		cmd.Path = os.Args[0]
		cmd.Env = append(os.Environ(), "GATE_TEST_CHILD=panic")
		if got := runHook(t, cmd, payload); got != (result{}) {
			t.Errorf("observe: got %v, want silence", got)
		}
	})
	for name, r := range map[string]wire.Reply{
		"stdout gone, pass": {Kind: wire.KindAnswer, Out: []byte(`{}`)},
		"stdout gone, deny": {Kind: wire.KindAnswer, Exit: 2, Out: []byte(`{}`), Err: []byte("denied by the broker")},
	} {
		t.Run(name, func(t *testing.T) {
			b := serve(t, answerReply(r))
			pr, pw, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			_ = pr.Close()
			defer func() { _ = pw.Close() }()
			cmd := hook(b.socket, "decide")
			cmd.Stdout = pw
			got := runHook(t, cmd, payload)
			if got.exit != 2 || got.err == "" {
				t.Errorf("got %v, want status 2 and a reason on stderr", got)
			}
		})
	}
	t.Run("allocation failure", func(t *testing.T) {
		for _, kib := range []string{"1000000", "300000", "110000", "40000"} {
			args := append([]string{"-c", "ulimit -v " + kib + `; exec "$0" "$@"`, program}, hook(b.socket, "decide").Args[1:]...)
			got := runHook(t, exec.Command("sh", args...), strings.Repeat("a", wire.MaxPayload))
			if got.exit != 2 && got != (result{out: "{}"}) {
				t.Errorf("address space of %s KiB: status %d, stderr %.200q", kib, got.exit, got.err)
			}
		}
	})
	t.Run("hostile environment", func(t *testing.T) {
		for _, env := range []string{"GOMEMLIMIT=nonsense", "GOMEMLIMIT=1", "GOGC=1", "GODEBUG=gctrace=1,inittrace=1", "HOME=/nonexistent", "LD_PRELOAD=/nonexistent.so"} {
			cmd := hook(b.socket, "decide")
			cmd.Env = append(os.Environ(), env)
			if got := runHook(t, cmd, payload); got.exit != 2 && (got.exit != 0 || got.out != "{}") {
				t.Errorf("%s: got %v", env, got)
			}
		}
	})
}
