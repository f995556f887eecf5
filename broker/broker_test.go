package broker

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"leaseguard.internal/broker/checkpoint"
	"leaseguard.internal/internal/agenttest"
	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/wire"
)

func TestMain(m *testing.M) {
	agenttest.Enter()
	testproc.Enter()
	goleak.VerifyTestMain(m)
}

// fixture is a broker in this process, whose clock a test moves. The test
// process registers itself, so its own connections are those of the session.
type fixture struct {
	*Broker
	t     *testing.T
	clock *clock.Fake
	zvm   *stubZVM
	dir   string
	stop  func()

	failing bool           // its disk has failed, and it has to say so when it ends
	options func(*Options) // what a test wants otherwise; nil: nothing
	prepare func(*Broker)  // likewise, before it runs
	manager *fakeScopes    // makes cgroups; nil: nobody does
}

// stubZVM stands at the consumer's interface: it confirms when told to.
type stubZVM struct {
	mu   sync.Mutex
	hold chan struct{} // if not nil, Ensure waits for it
	err  error
	now  time.Time
	seen int
}

// set changes what the next calls meet.
func (s *stubZVM) set(hold chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold, s.err = hold, err
}

func (s *stubZVM) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

func (s *stubZVM) Ensure(ctx context.Context, _ checkpoint.Request) ([]wire.CheckpointInfo, error) {
	s.mu.Lock()
	s.seen++
	hold, err := s.hold, s.err
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return []wire.CheckpointInfo{{VM: "app-01", VPG: "VPG-LOCAL", Tag: "t", ID: "7"}}, err
}

func (s *stubZVM) Look(_ context.Context, targets []catalog.Target) ([]wire.CheckpointInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []wire.CheckpointInfo{{VM: targets[0].Name, VPG: "VPG-LOCAL"}}, s.err
}

func (s *stubZVM) Time(context.Context) (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, s.err
}

func (s *stubZVM) Forget(string) {}

func newFixture(t *testing.T, change func(*config.Config), options ...func(*Options)) *fixture {
	t.Helper()
	f := bareFixture(t)
	for _, o := range options {
		f.options = o
	}
	f.start(change)
	return f
}

// bareFixture is a fixture without a broker.
func bareFixture(t *testing.T) *fixture {
	t.Helper()
	dir, err := os.MkdirTemp("", "guard-b-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	f := &fixture{t: t, dir: dir, zvm: &stubZVM{}, clock: clock.NewFake(clock.Instant(time.Hour), time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC))}
	f.stop = func() {}
	t.Cleanup(func() { f.stop() })
	return f
}

func (f *fixture) start(change func(*config.Config)) {
	f.t.Helper()
	env := map[string]string{"HOME": f.dir, "XDG_RUNTIME_DIR": filepath.Join(f.dir, "run")}
	p, err := paths.Resolve(func(k string) string { return env[k] }, uint32(os.Getuid()))
	f.must(err)
	cfg := config.Default()
	cfg.Identity.AllowRootSessions = true
	cfg.Checkpoint.Self = []string{"app-01"}
	if change != nil {
		change(cfg)
	}
	for _, d := range []string{env["XDG_RUNTIME_DIR"], filepath.Join(f.dir, ".local"), filepath.Join(f.dir, ".local/state")} {
		f.must(os.MkdirAll(d, 0o700))
	}
	opt := Options{Paths: p, Config: cfg, UID: uint32(os.Getuid()), Clock: clock.NewSteady(f.clock), Log: slog.New(slog.DiscardHandler), Version: "test", Checkpoints: f.zvm}
	if f.options != nil {
		f.options(&opt)
	}
	f.Broker, err = Start(opt)
	f.must(err)
	if f.prepare != nil {
		f.prepare(f.Broker)
	}
	if f.manager != nil {
		f.fences.manager, f.fences.patience = f.manager, time.Second
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	stopped := false
	f.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; (err != nil) != f.failing {
			f.t.Errorf("stopping the broker: %v", err)
		}
	}
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// dial connects to the session socket as this process.
func (f *fixture) dial() net.Conn {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := peer.Dial(ctx, f.opt.Paths.BrokerSocket, uint32(os.Getuid()))
	f.must(err)
	return conn
}

// register makes this process the anchor of a session that has been launched.
func (f *fixture) register(r wire.Register) (wire.Session, *wire.Error) {
	f.t.Helper()
	return f.registerWith(r, nil)
}

// registerWith does so with the bytes of the project's policy hooks.
func (f *fixture) registerWith(r wire.Register, project []byte) (wire.Session, *wire.Error) {
	f.t.Helper()
	if r.Hooks.State == "" {
		r.Hooks.State = wire.ProjectAbsent
	}
	text, err := json.Marshal(wire.Control{Verb: wire.VerbRegister, Register: &r})
	f.must(err)
	conn := f.dial()
	_, err = conn.Write(wire.AppendRequest(nil, wire.Request{Kind: wire.KindControl, Control: text, Body: project}))
	f.must(err)
	reply, err := wire.ReadReply(conn, wire.MaxControl)
	f.must(err)
	var res wire.Result
	f.must(json.Unmarshal(reply.Out, &res))
	f.must(conn.Close()) // as exec does
	if res.Error != nil {
		return wire.Session{}, res.Error
	}
	f.eventually("the session is launched", func() bool { s := f.sessions.ByID(res.Session.ID); return s != nil && s.Launched() })
	return *res.Session, nil
}

func (f *fixture) session() wire.Session {
	f.t.Helper()
	s, werr := f.register(wire.Register{Runtime: "exec", Dir: "/", Command: "test"})
	if werr != nil {
		f.t.Fatal(werr)
	}
	return s
}

// ask sends one event and returns the gate's answer.
func (f *fixture) ask(tool string) wire.Reply {
	f.t.Helper()
	return f.send(wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleDecide,
		Body: []byte(`{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"` + tool + `","tool_input":{}}`)})
}

func (f *fixture) send(req wire.Request) wire.Reply {
	f.t.Helper()
	conn := f.dial()
	defer conn.Close()
	_, err := conn.Write(wire.AppendRequest(nil, req))
	f.must(err)
	reply, err := wire.ReadReply(conn, wire.MaxOutput)
	f.must(err)
	return reply
}

// expect holds an answer to a code; an empty one to a pass.
func (f *fixture) expect(r wire.Reply, code string) {
	f.t.Helper()
	if code == "" {
		if r.Exit != 0 || len(r.Err) != 0 || bytes.Contains(r.Out, []byte("permissionDecision\"")) {
			f.t.Fatalf("want a pass, got exit %d: %s", r.Exit, r.Err)
		}
		return
	}
	if r.Exit != 2 || !strings.HasPrefix(string(r.Err), "guard: "+code+":") {
		f.t.Fatalf("want %s, got exit %d: %s%s", code, r.Exit, r.Err, r.Out)
	}
}

// approve runs the operator's verb itself: this process is inside its session,
// so its own operator connections are refused.
func (f *fixture) approve(id string) wire.Result {
	f.t.Helper()
	ctl := wire.Control{Verb: wire.VerbApprove, Session: id}
	for _, name := range f.settings().config.Lease.Context {
		ctl.Documents = append(ctl.Documents, wire.Document{Name: name, Missing: true})
	}
	return f.verb(context.Background(), ctl, nil)
}

func (f *fixture) verified() wire.Session {
	f.t.Helper()
	s := f.session()
	f.expect(f.ask("Read"), "")
	if r := f.approve(s.ID); r.Error != nil || r.Grant.State != "VERIFIED" {
		f.t.Fatalf("approving: %+v %v", r.Grant, r.Error)
	}
	return s
}

func (f *fixture) eventually(what string, done func() bool) {
	f.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			f.t.Fatalf("it never happened that %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
