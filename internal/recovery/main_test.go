package recovery

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/wire"
)

const (
	name      = "guard-0011223344556677"
	tokenText = "lgt_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
)

// TestMain also plays a host, which starts this binary once more as its server.
func TestMain(m *testing.M) {
	switch os.Getenv("RECOVERY_PLAYS") {
	case "host":
		os.Exit(playHost())
	case "server":
		os.Exit(playServer())
	}
	goleak.VerifyTestMain(m)
}

// playHost starts a server that inherits stdin, on which nothing ever comes,
// and ends when it is killed.
func playHost() int {
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stdin, cmd.Stdout = append(os.Environ(), "RECOVERY_PLAYS=server"), os.Stdin, os.Stdout
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_ = cmd.Wait()
	return 0
}

// playServer says when it has found its parent, and how it ended.
func playServer() int {
	ctx, stop, err := WithParent(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer stop()
	fmt.Fprintln(os.Stdout, "up")
	err = Serve(ctx, Options{Name: name, Paths: paths.Paths{BrokerSocket: "/nowhere/broker.sock"}, In: os.Stdin, Out: io.Discard})
	fmt.Fprintln(os.Stdout, "ended", err)
	return 0
}

// broker is a scripted broker, and the directory of a session that it knows.
type broker struct {
	t     *testing.T
	paths paths.Paths
	dir   string
	names []string // the context documents

	mu    sync.Mutex
	asked []wire.Control // without those for the context
	sent  []string       // the documents that came with them
	reply func(wire.Control) wire.Result

	context func(wire.Control) wire.Result // nil: dir and names
	held    func(net.Conn)                 // what becomes of a verb that grants, instead of an answer
}

func newBroker(t *testing.T, names ...string) *broker {
	t.Helper()
	run := t.TempDir()
	if err := os.Chmod(run, 0o700); err != nil {
		t.Fatal(err)
	}
	b := &broker{t: t, dir: t.TempDir(), names: names, paths: paths.Paths{
		Mode: paths.User, BrokerUID: uint32(os.Getuid()), RunDir: run, BrokerSocket: filepath.Join(run, "broker.sock"), OperatorSocket: filepath.Join(run, "operator.sock")}}
	b.reply = func(ctl wire.Control) wire.Result {
		g := &wire.Grant{Session: "s1", Generation: 1, Cycle: 2, State: "PENDING_VERIFICATION", Token: tokenText, TokenInS: 60}
		if ctl.Verb == wire.VerbRecoverPromote {
			g.State, g.Token, g.TokenInS, g.ExpiresInS = "VERIFIED", "", 0, 300
		}
		return wire.Result{Grant: g}
	}
	return b
}

// listen serves connections until the test ends.
func (b *broker) listen() *broker {
	b.t.Helper()
	l, err := net.Listen("unix", b.paths.BrokerSocket)
	if err != nil {
		b.t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				b.serve(conn)
			})
		}
	})
	b.t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return b
}

func (b *broker) serve(conn net.Conn) {
	h, err := wire.ReadHeader(conn, wire.Limits{Control: wire.MaxControl, Body: wire.MaxContext})
	if err != nil {
		return // a client that gave up
	}
	req, err := wire.ReadBody(conn, h)
	if err != nil {
		return
	}
	var ctl wire.Control
	if err := json.Unmarshal(req.Control, &ctl, json.RejectUnknownMembers(true)); err != nil {
		b.t.Error(err)
	}
	if ctl.Verb != wire.VerbContext && b.held != nil {
		b.held(conn)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	res := wire.Result{Context: &wire.Context{Session: "s1", Generation: 1, Dir: b.dir, Documents: b.names}}
	switch {
	case ctl.Verb == wire.VerbContext && b.context != nil:
		res = b.context(ctl)
	case ctl.Verb != wire.VerbContext:
		b.asked, b.sent = append(b.asked, ctl), append(b.sent, string(req.Body))
		res = b.reply(ctl)
	}
	text, err := json.Marshal(res)
	if err != nil {
		b.t.Error(err)
	}
	_, _ = conn.Write(wire.AppendReply(nil, wire.Reply{Kind: wire.KindResult, Out: text}))
}

// write puts a document into the session's directory.
func (b *broker) write(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// host is the host's end of a server's pipes.
type host struct {
	t    *testing.T
	in   *io.PipeWriter // the server's stdin
	out  *io.PipeReader // and stdout
	end  context.CancelFunc
	done chan error
}

func serve(b *broker) *host {
	b.t.Helper()
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	h := &host{t: b.t, in: in, out: out, end: cancel, done: make(chan error, 1)}
	go func() {
		h.done <- Serve(ctx, Options{Name: name, Paths: b.paths, In: stdin, Out: stdout})
		_, _ = stdin.Close(), stdout.Close()
	}()
	b.t.Cleanup(func() {
		cancel()
		_, _ = in.Close(), out.Close()
	})
	return h
}

// connect speaks MCP by the library's own client.
func (h *host) connect() *mcp.ClientSession {
	h.t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil)
	s, err := c.Connect(context.Background(), &mcp.IOTransport{Reader: h.out, Writer: h.in}, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = s.Close() })
	return s
}

// call calls the tool and returns its one text.
func call(t *testing.T, s *mcp.ClientSession, arguments any) (text string, failed bool) {
	t.Helper()
	res, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: ToolName, Arguments: arguments})
	if err != nil {
		t.Fatalf("calling with %v: %v", arguments, err)
	}
	if len(res.Content) != 1 || res.StructuredContent != nil {
		t.Fatalf("the answer is %+v, want one text", res)
	}
	return res.Content[0].(*mcp.TextContent).Text, res.IsError
}

// scripted serves every request, also those for the context, by answer.
func (b *broker) scripted(answer func(wire.Control) wire.Result) {
	b.t.Helper()
	b.context = answer
	b.reply = answer
	b.listen()
}

// hold makes the broker keep verbs that grant until their sender gives up, and
// says when the first has come.
func (b *broker) hold() (began <-chan struct{}) {
	first := make(chan struct{})
	var once sync.Once
	b.held = func(conn net.Conn) {
		once.Do(func() { close(first) })
		_, _ = io.Copy(io.Discard, conn)
	}
	b.listen()
	return first
}

// Lines of a host.
const (
	initialize  = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"host","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

func callLine(arguments string) string {
	return `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"recover","arguments":` + arguments + `}}`
}

// say writes lines to the server, which may have ended.
func (h *host) say(lines ...string) {
	for _, line := range lines {
		if _, err := io.WriteString(h.in, line+"\n"); err != nil {
			return
		}
	}
}

// hangUp ends the server's stdin.
func (h *host) hangUp() { _ = h.in.Close() }
