package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/wire"
)

// testPaths are those of a user in a directory of the test's own.
func testPaths(t *testing.T) paths.Paths {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(dir, "run")
	if err := os.Mkdir(run, 0o700); err != nil {
		t.Fatal(err)
	}
	return paths.Paths{
		Mode: paths.User, Config: filepath.Join(dir, "guard.toml"), StateDir: filepath.Join(dir, "state"), RunDir: run,
		BrokerSocket: filepath.Join(run, "broker.sock"), OperatorSocket: filepath.Join(run, "operator.sock"),
		Lock: filepath.Join(run, "broker.lock"), BrokerUID: uint32(os.Getuid()),
	}
}

// scripted serves one connection on socket with answer.
func scripted(t *testing.T, socket string, answer func(conn net.Conn)) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		answer(conn)
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
}

// request reads what a client sent.
func request(t *testing.T, conn net.Conn) (wire.Control, wire.Request) {
	t.Helper()
	h, err := wire.ReadHeader(conn, wire.Limits{Control: wire.MaxControl, Body: wire.MaxContext})
	if err != nil {
		t.Errorf("reading header: %v", err)
		return wire.Control{}, wire.Request{}
	}
	req, err := wire.ReadBody(conn, h)
	if err != nil {
		t.Errorf("reading body: %v", err)
	}
	var ctl wire.Control
	if err := json.Unmarshal(req.Control, &ctl, json.RejectUnknownMembers(true)); err != nil {
		t.Errorf("decoding control: %v", err)
	}
	return ctl, req
}

func reply(conn net.Conn, r wire.Reply) { _, _ = conn.Write(wire.AppendReply(nil, r)) }

func result(t *testing.T, conn net.Conn, res wire.Result) {
	t.Helper()
	text, err := json.Marshal(res)
	if err != nil {
		t.Error(err)
	}
	reply(conn, wire.Reply{Kind: wire.KindResult, Out: text})
}

func TestDo(t *testing.T) {
	p := testPaths(t)
	scripted(t, p.OperatorSocket, func(conn net.Conn) {
		ctl, req := request(t, conn)
		if ctl.Verb != wire.VerbApprove || ctl.Session != "s1" || string(req.Body) != "text" {
			t.Errorf("broker got %+v with body %q", ctl, req.Body)
		}
		result(t, conn, wire.Result{Grant: &wire.Grant{Session: "s1", State: "VERIFIED"}})
	})
	res, err := Dial(p).Do(context.Background(), wire.Control{Verb: wire.VerbApprove, Session: "s1"}, []byte("text"))
	if err != nil || res.Grant == nil || res.Grant.State != "VERIFIED" {
		t.Errorf("Do = %+v, %v", res, err)
	}
}

func TestDoRefusal(t *testing.T) {
	p := testPaths(t)
	scripted(t, p.OperatorSocket, func(conn net.Conn) {
		// Answered before the documents are read, as a broker does that refuses
		// early: the client is still writing.
		result(t, conn, wire.Result{Error: &wire.Error{Code: "not_operator", Message: "guard: not_operator: no"}})
	})
	_, err := Dial(p).Do(context.Background(), wire.Control{Verb: wire.VerbApprove}, make([]byte, wire.MaxContext))
	var refused *wire.Error
	if !errors.As(err, &refused) || refused.Code != "not_operator" {
		t.Errorf("Do = %v, want the broker's refusal", err)
	}
}

func TestDoBadAnswer(t *testing.T) {
	frame := func(r wire.Reply) []byte { return wire.AppendReply(nil, r) }
	good := []byte(`{"time":"2026-01-02T03:04:05Z"}`)
	for _, tc := range []struct {
		name string
		text []byte
	}{
		{"nothing", nil},
		{"half a header", frame(wire.Reply{Kind: wire.KindResult, Out: good})[:9]},
		{"half a body", frame(wire.Reply{Kind: wire.KindResult, Out: good})[:30]},
		{"a gate's answer", frame(wire.Reply{Kind: wire.KindAnswer, Out: good})},
		{"text for stderr", frame(wire.Reply{Kind: wire.KindResult, Out: good, Err: []byte("x")})},
		{"no JSON", frame(wire.Reply{Kind: wire.KindResult, Out: []byte("ok")})},
		{"empty", frame(wire.Reply{Kind: wire.KindResult})},
		{"unknown key", frame(wire.Reply{Kind: wire.KindResult, Out: []byte(`{"time":"2026-01-02T03:04:05Z","state":"VERIFIED"}`)})},
		{"key in capitals", frame(wire.Reply{Kind: wire.KindResult, Out: []byte(`{"GRANT":{"session":"s","state":"VERIFIED"}}`)})},
		{"key twice", frame(wire.Reply{Kind: wire.KindResult, Out: []byte(`{"error":{"code":"x","message":"m"},"error":null}`)})},
		{"over the limit", append(bytes.Clone(frame(wire.Reply{Kind: wire.KindResult})[:12]), 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := testPaths(t)
			scripted(t, p.OperatorSocket, func(conn net.Conn) {
				request(t, conn)
				_, _ = conn.Write(tc.text)
			})
			if res, err := Dial(p).Do(context.Background(), wire.Control{Verb: wire.VerbStatus}, nil); err == nil {
				t.Errorf("took %q for the answer %+v", tc.text, res)
			}
		})
	}
}

func TestDoNoBroker(t *testing.T) {
	p := testPaths(t)
	if _, err := Dial(p).Do(context.Background(), wire.Control{Verb: wire.VerbStatus}, nil); !errors.Is(err, peer.ErrUnavailable) {
		t.Errorf("Do = %v, want ErrUnavailable", err)
	}
	if up, err := Running(context.Background(), p); up || err != nil {
		t.Errorf("Running = %v, %v", up, err)
	}
	// A directory that others may write isn't the broker's, whoever listens.
	if err := os.Chmod(p.RunDir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Running(context.Background(), p); !errors.Is(err, peer.ErrUntrusted) {
		t.Errorf("Running = %v, want ErrUntrusted", err)
	}
	if err := EnsureBroker(context.Background(), p); !errors.Is(err, peer.ErrUntrusted) {
		t.Errorf("EnsureBroker = %v, want ErrUntrusted", err)
	}
}

func TestDoLimits(t *testing.T) {
	p := testPaths(t)
	scripted(t, p.OperatorSocket, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	for name, req := range map[string]struct {
		ctl  wire.Control
		body []byte
	}{
		"control": {wire.Control{Verb: wire.VerbRevoke, Reason: strings.Repeat("x", wire.MaxControl)}, nil},
		"body":    {wire.Control{Verb: wire.VerbApprove}, make([]byte, wire.MaxContext+1)},
		"utf-8":   {wire.Control{Verb: wire.VerbRevoke, Reason: "\xff"}, nil},
	} {
		conn, other := net.Pipe()
		if _, err := exchange(context.Background(), conn, req.ctl, req.body); err == nil {
			t.Errorf("%s: sent", name)
		}
		conn.Close()
		other.Close()
	}
}

func TestDoCancelled(t *testing.T) {
	p := testPaths(t)
	ctx, cancel := context.WithCancel(context.Background())
	scripted(t, p.OperatorSocket, func(conn net.Conn) {
		request(t, conn)
		cancel()
		_, _ = io.Copy(io.Discard, conn) // until the client hangs up
	})
	if _, err := Dial(p).Do(ctx, wire.Control{Verb: wire.VerbStatus}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Do = %v, want the context's error", err)
	}
}

func TestRegister(t *testing.T) {
	p := testPaths(t)
	closed := make(chan error, 1)
	scripted(t, p.BrokerSocket, func(conn net.Conn) {
		ctl, _ := request(t, conn)
		if ctl.Verb != wire.VerbRegister || ctl.Register == nil || ctl.Register.Runtime != "exec" {
			t.Errorf("broker got %+v", ctl)
		}
		result(t, conn, wire.Result{Session: &wire.Session{ID: "s1", Generation: 1}})
		_, err := conn.Read(make([]byte, 1))
		closed <- err
	})
	res, conn, err := Register(context.Background(), p, wire.Register{Runtime: "exec", Dir: "/", Command: "/bin/true"}, nil)
	if err != nil || res.Session.ID != "s1" {
		t.Fatalf("Register = %+v, %v", res, err)
	}
	select {
	case err := <-closed:
		t.Errorf("the registration ended with %v before its holder closed it", err)
	default:
	}
	conn.Close()
	if err := <-closed; !errors.Is(err, io.EOF) {
		t.Errorf("the broker saw %v, want the end of the connection", err)
	}
}

func TestRegisterNeedsSession(t *testing.T) {
	for name, res := range map[string]wire.Result{
		"none":          {},
		"no id":         {Session: &wire.Session{Generation: 1}},
		"no generation": {Session: &wire.Session{ID: "s1"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := testPaths(t)
			scripted(t, p.BrokerSocket, func(conn net.Conn) {
				request(t, conn)
				result(t, conn, res)
			})
			if _, _, err := Register(context.Background(), p, wire.Register{Runtime: "exec"}, nil); !errors.Is(err, ErrAnswer) {
				t.Errorf("Register = %v, want ErrAnswer", err)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"error":{"code":"x","message":"m"}}`), []byte{}, byte(wire.KindResult))
	f.Add([]byte(`{"grant":{"session":"s","state":"VERIFIED"}}`), []byte("x"), byte(0))
	f.Fuzz(func(t *testing.T, out, errText []byte, kind byte) {
		res, err := decode(wire.Reply{Kind: wire.Kind(kind), Out: out, Err: errText})
		if err == nil && (wire.Kind(kind) != wire.KindResult || len(errText) > 0 || res.Error != nil) {
			t.Errorf("took kind %d, %q, %q for an answer", kind, out, errText)
		}
	})
}

// In system mode the service manager holds the sockets: a broker that can't start
// ends connections without an answer, and who asks says why.
func TestUnstarted(t *testing.T) {
	p := testPaths(t)
	p.Mode = paths.System
	for _, tt := range []struct{ name, config, want string }{
		{"a broken guard.toml", "[identity]\nwhat = 1\n", "guard.toml:2"},
		{"a good one", "", "asking the broker to status"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.WriteFile(p.Config, []byte(tt.config), 0o600); err != nil {
				t.Fatal(err)
			}
			_ = os.Remove(p.OperatorSocket) // of the case before
			scripted(t, p.OperatorSocket, func(net.Conn) {})
			_, err := Dial(p).Do(t.Context(), wire.Control{Verb: wire.VerbStatus}, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), paths.StartService()) {
				t.Errorf("nobody answers: %v; want %q and how to start it", err, tt.want)
			}
			err = EnsureBroker(t.Context(), p)
			if err == nil || !strings.Contains(err.Error(), "no broker runs in system mode") || !strings.Contains(err.Error(), paths.StartService()) {
				t.Errorf("nobody listens: %v", err)
			}
		})
	}
}
