package client

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// guarded is a broker that wants a passphrase for everything but status, and
// writes down what it got.
func guarded(t *testing.T, socket, want string) (got func() []string) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			h, err := wire.ReadHeader(conn, wire.Limits{Control: wire.MaxControl, Body: wire.MaxContext})
			if err != nil {
				t.Error(err)
			}
			req, err := wire.ReadBody(conn, h)
			var ctl wire.Control
			if err = errors.Join(err, json.Unmarshal(req.Control, &ctl)); err != nil {
				t.Error(err)
			}
			list = append(list, string(ctl.Verb)+":"+string(ctl.Passphrase))
			var res wire.Result
			switch {
			case ctl.Verb == wire.VerbStatus || string(ctl.Passphrase) == want:
			case ctl.Passphrase == "":
				res.Error = &wire.Error{Code: string(verdict.PassphraseNeeded), Message: "needed"}
			default:
				res.Error = &wire.Error{Code: string(verdict.PassphraseWrong), Message: "wrong"}
			}
			out, err := json.Marshal(res)
			if err == nil {
				_, err = conn.Write(wire.AppendReply(nil, wire.Reply{Kind: wire.KindResult, Out: out}))
			}
			if err = errors.Join(err, conn.Close()); err != nil {
				t.Error(err)
			}
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return func() []string { l.Close(); <-done; return list }
}

// TestAskWith: a person is asked when the broker wants the passphrase, once for
// all requests, again after a wrong one, and never for what needs none.
func TestAskWith(t *testing.T) {
	p := testPaths(t)
	got := guarded(t, p.OperatorSocket, "right")
	answers := []wire.Secret{"wrong", "right"}
	asked := 0
	c := Dial(p).AskWith(func(context.Context) (wire.Secret, error) { asked++; return answers[asked-1], nil })
	for _, step := range []struct {
		verb  wire.Verb
		code  verdict.Code // of the refusal, if any
		asked int
	}{
		{wire.VerbStatus, "", 0},
		{wire.VerbContext, verdict.PassphraseWrong, 1},
		{wire.VerbContext, "", 2},
		{wire.VerbApprove, "", 2},
	} {
		if _, err := c.Do(t.Context(), wire.Control{Verb: step.verb}, nil); step.code != "" && !Refused(err, step.code) || step.code == "" && err != nil || asked != step.asked {
			t.Errorf("%s: %v after %d questions, want %q after %d", step.verb, err, asked, step.code, step.asked)
		}
	}
	if _, err := Dial(p).Do(t.Context(), wire.Control{Verb: wire.VerbApprove}, nil); !Refused(err, verdict.PassphraseNeeded) {
		t.Errorf("with nobody to ask: %v", err)
	}
	failed := errors.New("no terminal")
	c = Dial(p).AskWith(func(context.Context) (wire.Secret, error) { return "", failed })
	if _, err := c.Do(t.Context(), wire.Control{Verb: wire.VerbApprove}, nil); !errors.Is(err, failed) {
		t.Errorf("with a question that fails: %v", err)
	}
	want := []string{"status:", "context:", "context:wrong", "context:", "context:right", "approve:", "approve:right", "approve:", "approve:"}
	if list := got(); !slices.Equal(list, want) {
		t.Errorf("the broker was sent %q, want %q", list, want)
	}
}

// TestClosedSocket: where the socket's mode keeps others out, that is said as
// the refusal that it is; and whether a broker runs is asked at the other one.
func TestClosedSocket(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may open every socket; TestAttack26_SystemMode has the same as another user")
	}
	p := testPaths(t)
	p.Mode = paths.System
	for _, socket := range []string{p.OperatorSocket, p.BrokerSocket} {
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	if err := os.Chmod(filepath.Clean(p.OperatorSocket), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(p).Do(t.Context(), wire.Control{Verb: wire.VerbStatus}, nil); !Refused(err, verdict.NotOperator) {
		t.Errorf("Do = %v, want not_operator", err)
	}
	if up, err := Running(t.Context(), p); !up || err != nil {
		t.Errorf("Running = %v, %v", up, err)
	}
}
