package policy

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"leaseguard.internal/gate/dialect"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/policysim"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// world is an evaluator and a server whose time and network are a test's own: a
// wait of a minute takes none.
type world struct {
	*Evaluator
	t   *testing.T
	sim *policysim.Server

	mu    sync.Mutex
	down  []time.Duration // one for each dial that fails: after how long
	since time.Time
	tries []time.Duration // when the server was dialled or asked
}

// bubbleClock tells the time of the bubble.
type bubbleClock struct{}

func (bubbleClock) Now() clock.Instant { return clock.Instant(time.Now().UnixNano()) }
func (bubbleClock) Wall() time.Time    { return time.Now() }

// in runs a test in a world. change may alter what is configured.
func in(t *testing.T, change func(*config.PolicyServer), test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := config.PolicyServer{URL: "http://127.0.0.1:1" + policysim.Path, ConnectTimeout: 5 * time.Second, Budget: 30 * time.Second}
		if change != nil {
			change(&cfg)
		}
		e, err := NewEvaluator(cfg, uint32(os.Getuid()), bubbleClock{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		w := &world{Evaluator: e, t: t, sim: &policysim.Server{}, since: time.Now()}
		conns := make(chan net.Conn)
		server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.tried()
			w.sim.ServeHTTP(rw, r)
		})}
		go func() { _ = server.Serve(&pipes{conns: conns}) }()
		e.http.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return w.dial(ctx, conns)
		}
		defer func() { // also when the test gives up
			e.Close()
			_ = server.Close()
			close(conns)
		}()
		test(w)
	})
}

func (w *world) tried() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tries = append(w.tries, time.Since(w.since))
}

func (w *world) dial(ctx context.Context, conns chan<- net.Conn) (net.Conn, error) {
	w.mu.Lock()
	fails := len(w.down) > 0
	var after time.Duration
	if fails {
		after, w.down = w.down[0], w.down[1:]
	}
	w.mu.Unlock()
	if fails {
		w.tried()
		if err := clock.Sleep(ctx, after); err != nil {
			return nil, err
		}
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	here, there := net.Pipe()
	conns <- there
	return here, nil
}

// pipes are a listener.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (p *pipes) end() chan struct{} {
	p.once.Do(func() { p.done = make(chan struct{}) })
	return p.done
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c, ok := <-p.conns:
		if ok {
			return c, nil
		}
	case <-p.end():
	}
	return nil, net.ErrClosed
}

func (p *pipes) Close() error {
	defer func() { _ = recover() }() // closed twice
	close(p.end())
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// Calls of a session.
func toolCall(tool, input string) Call {
	return Call{Session: "s1", Generation: 1, Host: wire.HostClaude, Own: true,
		Event: dialect.Event{Kind: dialect.ToolCall, Name: "PreToolUse", Tool: tool, Input: []byte(input)}}
}

func prompt(raw string) Call {
	return Call{Session: "s1", Generation: 1, Host: wire.HostClaude, Event: dialect.Event{Kind: dialect.Prompt, Name: "UserPromptSubmit", Prompt: []byte(raw)}}
}

func result(tool, input, gave string) Call {
	c := toolCall(tool, input)
	c.Event.Kind, c.Event.Name, c.Event.Result = dialect.Observer, "PostToolUse", []byte(gave)
	return c
}

var bash = toolCall("Bash", `{"command":"id"}`)

func (w *world) ask(c Call) Opinion { return w.Judge(context.Background(), c) }

// passes wants no objection.
func (w *world) passes(c Call) {
	w.t.Helper()
	if o := w.ask(c); o.Denied {
		w.t.Errorf("%s is denied: %s: %s", c.Event.Tool, o.Code, o.Cause)
	}
}

// denies wants a denial of a code, with words in its cause.
func (w *world) denies(c Call, code verdict.Code, words ...string) Opinion {
	w.t.Helper()
	o := w.ask(c)
	if !o.Denied || o.Code != code || o.Next == "" || o.Result == nil {
		w.t.Fatalf("%+v, want a denial with %s", o, code)
	}
	for _, word := range words {
		if !strings.Contains(o.Cause+" "+o.Next, word) {
			w.t.Errorf("the reason %q doesn't say %q", o.Cause+" "+o.Next, word)
		}
	}
	return o
}

// asked is how often the server was asked, and whether by one id.
func (w *world) asked(want int) {
	w.t.Helper()
	seen := w.sim.Seen()
	if len(seen) != want {
		w.t.Fatalf("asked %d times, want %d", len(seen), want)
	}
	for _, s := range seen {
		if s.ID != seen[0].ID || !strings.HasPrefix(s.ID, idPrefix) {
			w.t.Errorf("ids %q and %q for one evaluation", seen[0].ID, s.ID)
		}
	}
}

// at wants the attempts at these seconds.
func (w *world) at(seconds ...int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.tries) != len(seconds) {
		w.t.Fatalf("attempts at %v, want %v", w.tries, seconds)
	}
	for i, s := range seconds {
		if w.tries[i].Round(100*time.Millisecond) != time.Duration(s)*time.Second {
			w.t.Errorf("attempts at %v, want %v", w.tries, seconds)
		}
	}
}

// within wants what f does to take so long.
func (w *world) within(want time.Duration, f func()) {
	w.t.Helper()
	began := time.Now()
	f()
	if took := time.Since(began); took > want {
		w.t.Errorf("took %v, want at most %v", took, want)
	}
}

// file writes a token's file.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// event is the event of an evaluation, decoded by another reader than ours.
func event(t *testing.T, e policysim.Evaluation) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.NewDecoder(strings.NewReader(string(e.Event))).Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}
