package gate

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

func TestWritesTheReplyAsItIs(t *testing.T) {
	big := strings.Repeat("x", wire.MaxOutput)
	for _, tc := range []struct {
		name, role string
		reply      wire.Reply
	}{
		{"pass", "decide", pass},
		{"pass with context", "decide", wire.Reply{Kind: wire.KindAnswer, Out: []byte(`{"a":"é\u0000"}` + "\n"), Err: []byte("\xff\x00")}},
		{"silent pass", "decide", wire.Reply{Kind: wire.KindAnswer}},
		{"largest outputs", "decide", wire.Reply{Kind: wire.KindAnswer, Out: []byte(big), Err: []byte(big)}},
		{"deny", "decide", wire.Reply{Kind: wire.KindAnswer, Exit: 2, Out: []byte("{...}"), Err: []byte("no\n")}},
		{"observe", "observe", wire.Reply{Kind: wire.KindAnswer}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := serve(t, answerReply(tc.reply))
			got := runHook(t, hook(b.socket, tc.role), payload)
			want := result{string(tc.reply.Out), string(tc.reply.Err), int(tc.reply.Exit)}
			if got != want {
				t.Errorf("got %v, want %v", got, want)
			}
			if b.asked() != 1 {
				t.Errorf("%d connections, want 1", b.asked())
			}
		})
	}
}

func TestSendsThePayloadAsItCame(t *testing.T) {
	b := serve(t, answerReply(pass))
	bodies := []string{"", payload, "\xef\xbb\xbf{}\x00}{", strings.Repeat("y", 64<<10), strings.Repeat("z", 3<<20), strings.Repeat("m", wire.MaxPayload)}
	for i, body := range bodies {
		for host, name := range map[wire.Host]string{wire.HostClaude: "claude", wire.HostCodex: "codex", wire.HostPi: "pi"} {
			cmd := hook(b.socket, "decide")
			cmd.Args[1] = name
			if got := runHook(t, cmd, body); got.exit != 0 {
				t.Fatalf("body %d: %v", i, got)
			}
			want := wire.AppendRequest(nil, wire.Request{Kind: wire.KindEvent, Host: host, Role: wire.RoleDecide, Body: []byte(body)})
			b.mu.Lock()
			raw := b.raw[len(b.raw)-1]
			b.mu.Unlock()
			if !bytes.Equal(raw, want) {
				t.Errorf("host %s, body %d: frame starts with % x, want % x", name, i, raw[:20], want[:20])
			}
		}
	}
}

func TestOversizePayloadIsDrainedAndFlagged(t *testing.T) {
	b := serve(t, answerReply(pass))
	if got := runHook(t, hook(b.socket, "decide"), strings.Repeat("o", wire.MaxPayload+1)); got.exit != 0 {
		t.Fatalf("got %v", got)
	}
	if r := b.requests[0]; r.Flags != wire.FlagOversize || len(r.Body) != 0 {
		t.Errorf("flags %#x and %d bytes, want the oversize flag and none", r.Flags, len(r.Body))
	}
}

// Who made the socketpair at stdin is named in the header, whoever the gate's
// parent is.
func TestStdinPeer(t *testing.T) {
	b := serve(t, answerReply(pass))
	pair := func() (mine, theirs *os.File) {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return os.NewFile(uintptr(fds[0]), "mine"), os.NewFile(uintptr(fds[1]), "theirs")
	}
	for _, tc := range []struct {
		name string
		wrap []string // started between this process and the gate
		pair bool
		want int
	}{
		{"socketpair of the parent", nil, true, os.Getpid()},
		{"socketpair of the grandparent", []string{"sh", "-c", `"$@"; exit $?`, "sh"}, true, os.Getpid()},
		{"pipe of the parent", nil, false, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := hook(b.socket, "decide")
			if tc.wrap != nil {
				cmd = exec.Command(tc.wrap[0], append(tc.wrap[1:], append([]string{program}, cmd.Args[1:]...)...)...)
			}
			if tc.pair {
				mine, theirs := pair()
				cmd.Stdin = theirs
				_, _ = mine.WriteString(payload)
				_ = mine.Close()
				defer func() { _ = theirs.Close() }()
			}
			if got := runHook(t, cmd, payload); got.exit != 0 {
				t.Fatalf("got %v", got)
			}
			r := b.requests[len(b.requests)-1]
			if r.Flags != 0 || int(r.Peer) != tc.want || string(r.Body) != payload {
				t.Errorf("flags %#x, peer %d, want %d; body %q", r.Flags, r.Peer, tc.want, r.Body)
			}
		})
	}
}

// Who made the socketpair and has been reaped made it no more: somebody else may
// have the number by now.
func TestStdinPeerIsGone(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(private(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for _, name := range []string{"lives", "gone"} {
		t.Run(name, func(t *testing.T) {
			b := serve(t, answerReply(pass))
			maker := exec.Command("/proc/self/exe")
			maker.Env = []string{"GATE_TEST_CHILD=speak", "GATE_TEST_SOCKET=" + l.Addr().String()}
			hold, err := maker.StdinPipe() // it lives until this ends
			if err == nil {
				err = maker.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			conn, err := l.Accept() // of which the kernel says the same as of a socketpair of its own
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			want := maker.Process.Pid
			end := func() { _ = hold.Close(); _ = maker.Wait() }
			if name == "gone" {
				end()
				want = 0
			} else {
				defer end()
			}
			stdin, err := conn.(*net.UnixConn).File()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = stdin.Close() }()
			cmd := hook(b.socket, "decide")
			cmd.Stdin = stdin
			if got := runHook(t, cmd, ""); got.exit != 0 {
				t.Fatalf("got %v", got)
			}
			if r := b.requests[len(b.requests)-1]; int(r.Peer) != want || string(r.Body) != payload {
				t.Errorf("peer %d, want %d; body %q", r.Peer, want, r.Body)
			}
		})
	}
}

// A broker that closes before it has read the payload can't pass it.
func TestPassForUnreadPayloadDenies(t *testing.T) {
	socket := filepath.Join(private(t), "broker.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_, _ = conn.Write(wire.AppendReply(nil, pass))
			_ = conn.Close()
		}
	}()
	wantDeny(t, runHook(t, hook(socket, "decide"), strings.Repeat("p", 8<<20)), verdict.BrokerUnavailable)
}

// TestF2_OwnDeadline: the gate's own answer comes, whatever the broker does.
func TestF2_OwnDeadline(t *testing.T) {
	hang := make(chan struct{})
	hung := serve(t, func(conn *net.UnixConn, _ *wire.Request) { <-hang })
	dribble := serve(t, func(conn *net.UnixConn, _ *wire.Request) {
		_, _ = conn.Write(wire.AppendReply(nil, pass)[:21])
		<-hang
	})
	t.Cleanup(func() { close(hang) }) // before the brokers wait for their scripts
	deaf, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(private(t), "b.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = deaf.Close() })
	for name, tc := range map[string]struct{ socket, stdin string }{
		"never answers":             {hung.socket, payload},
		"answers half":              {dribble.socket, payload},
		"never accepts":             {deaf.Addr().String(), payload},
		"never reads a big payload": {deaf.Addr().String(), strings.Repeat("b", 4<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantDeny(t, runHook(t, hook(tc.socket, "decide", "--deadline", "1"), tc.stdin), verdict.Deadline)
		})
	}
	t.Run("observe", func(t *testing.T) {
		t.Parallel()
		if got := runHook(t, hook(hung.socket, "observe", "--deadline", "1"), payload); got != (result{}) {
			t.Errorf("got %v, want silence", got)
		}
	})
}

// The gate reads a whole reply and not one byte of the next connection's.
func TestManyStartsAtOnce(t *testing.T) {
	b := serve(t, func(conn *net.UnixConn, req *wire.Request) {
		_, _ = conn.Write(wire.AppendReply(nil, wire.Reply{Kind: wire.KindAnswer, Out: req.Body}))
		_, _ = io.Copy(io.Discard, conn) // the gate needn't wait for the end of the connection
	})
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			if got := runHook(t, hook(b.socket, "decide"), fmt.Sprint(i)); got != (result{out: fmt.Sprint(i)}) {
				t.Errorf("got %v", got)
			}
		})
	}
}
