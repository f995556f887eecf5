package recovery

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/wire"
)

// TestConversation is what a model does that knows nothing but what it is told.
func TestConversation(t *testing.T) {
	b := newBroker(t, "AGENTS.md", "docs.md").listen()
	b.write("AGENTS.md", "Be careful.\n")
	s := serve(b).connect()

	if info := s.InitializeResult(); info.ServerInfo.Name != name || info.Capabilities.Tools == nil {
		t.Errorf("the server says it is %+v", info)
	}
	tools, err := s.ListTools(context.Background(), nil)
	if err != nil || len(tools.Tools) != 1 || tools.Tools[0].Name != "recover" {
		t.Fatalf("tools: %+v, %v", tools, err)
	}
	if d := tools.Tools[0].Description; !strings.Contains(d, "{}") || !strings.Contains(d, `{"token": "lgt_..."}`) {
		t.Errorf("the description doesn't say what to do: %s", d)
	}

	text, failed := call(t, s, map[string]any{})
	found := regexp.MustCompile(`lgt_[A-Za-z0-9_-]{43}`).FindAllString(text, -1)
	if failed || len(found) != 1 || !strings.Contains(text, "Be careful.\n") || !strings.Contains(text, `"docs.md": does not exist`) {
		t.Fatalf("begin: failed %v:\n%s", failed, text)
	}
	text, failed = call(t, s, map[string]any{"token": found[0]})
	if failed || !strings.Contains(text, "VERIFIED for 300 s") {
		t.Errorf("promote: failed %v:\n%s", failed, text)
	}

	docs := []wire.Document{{Name: "AGENTS.md", Size: 12}, {Name: "docs.md", Missing: true}}
	want := []wire.Control{
		{Verb: wire.VerbRecoverBegin, Session: "s1", Generation: 1, Documents: docs},
		{Verb: wire.VerbRecoverPromote, Session: "s1", Generation: 1, Documents: docs, Token: tokenText},
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if d := cmp.Diff(want, b.asked); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"Be careful.\n", "Be careful.\n"}, b.sent); d != "" {
		t.Error(d)
	}
}

// TestIntroduction: the broker hears of the server before any call, so that it
// can pin it.
func TestIntroduction(t *testing.T) {
	b := newBroker(t)
	heard := make(chan wire.Control, 1)
	b.scripted(func(ctl wire.Control) wire.Result {
		heard <- ctl
		return wire.Result{Error: &wire.Error{Code: "not_operator", Message: "no"}}
	})
	h := serve(b)
	if d := cmp.Diff(wire.Control{Verb: wire.VerbContext}, <-heard); d != "" {
		t.Error(d)
	}
	h.hangUp()
	if err := <-h.done; err != nil {
		t.Errorf("a refused introduction ended the server: %v", err)
	}
}

func TestEnds(t *testing.T) {
	t.Run("stdin", func(t *testing.T) {
		h := serve(newBroker(t).listen())
		h.hangUp()
		if err := <-h.done; err != nil {
			t.Errorf("Serve = %v at the end of stdin, want nil", err)
		}
	})
	t.Run("stdin while a call is held", func(t *testing.T) {
		b := newBroker(t)
		began := b.hold()
		h := serve(b)
		go func() { _, _ = io.Copy(io.Discard, h.out) }()
		h.say(initialize, initialized, callLine(`{}`))
		<-began
		h.hangUp()
		if err := <-h.done; err != nil {
			t.Errorf("Serve = %v, want nil", err)
		}
	})
	t.Run("context while a call is held", func(t *testing.T) {
		b := newBroker(t)
		began := b.hold()
		h := serve(b)
		go func() { _, _ = io.Copy(io.Discard, h.out) }()
		h.say(initialize, initialized, callLine(`{}`))
		<-began
		h.end()
		if err := <-h.done; err != nil {
			t.Errorf("Serve = %v, want nil", err)
		}
	})
	t.Run("context while nobody reads stdout", func(t *testing.T) {
		h := serve(newBroker(t).listen())
		h.say(initialize)
		h.end()
		if err := <-h.done; err != nil {
			t.Errorf("Serve = %v, want nil", err)
		}
	})
}

// TestHostsDeath: a server whose stdin stays open, because somebody else holds
// the other end too, ends with its host.
func TestHostsDeath(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RECOVERY_PLAYS=host")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "up" {
		t.Fatalf("the server said %q, %v", lines.Text(), lines.Err())
	}
	if err := cmd.Process.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() || lines.Text() != "ended <nil>" {
		t.Errorf("the server said %q, %v", lines.Text(), lines.Err())
	}
	_ = cmd.Wait()
}

func TestValidName(t *testing.T) {
	for in, want := range map[string]bool{
		name: true, "": false, "guard-": false, name + "0": false, strings.ToUpper(name): false, "guard-001122334455667g": false,
		name + "\n": false, "x" + name: false, "guard-00112233445566/7": false,
	} {
		if ValidName(in) != want {
			t.Errorf("ValidName(%q) = %v", in, !want)
		}
	}
}
