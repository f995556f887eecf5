package broker

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// The users and groups of these tests. None of them needs to exist.
const (
	theGroup = 61500 // of operators
	ann      = 61001
	bob      = 61002
)

const askVar = "BROKER_TEST_ASK"

// TestOperatorProcess is no test: it is a process that asks the broker what its
// arguments say, tells the answer, and stays until it is let go.
func TestOperatorProcess(t *testing.T) {
	socket, request := os.Getenv(askVar), os.Getenv(askVar+"_REQUEST")
	if socket == "" {
		return
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(wire.AppendRequest(nil, wire.Request{Kind: wire.KindControl, Control: []byte(request)})); err != nil {
		t.Fatal(err)
	}
	reply, err := wire.ReadReply(conn, wire.MaxContext)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = os.Stdout.Write(append(reply.Out, '\n'))
	_, _ = os.Stdin.Read(make([]byte, 1))
	unix.Exit(0)
}

// asker is a process that has asked, and lives on.
type asker struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Closer
}

func (p *asker) end() { _ = p.in.Close(); _ = p.cmd.Wait() }

// as asks the broker as a user in groups, by a process of its own.
func as(t *testing.T, cred syscall.Credential, socket string, ctl wire.Control) (wire.Result, *asker) {
	t.Helper()
	request, err := json.Marshal(ctl)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestOperatorProcess$")
	cmd.Dir, cmd.Env, cmd.Stderr = "/", []string{askVar + "=" + socket, askVar + "_REQUEST=" + string(request)}, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &cred}
	in, out := testproc.Piped(t, cmd)
	p := &asker{t, cmd, in}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			p.end()
		}
	})
	var res wire.Result
	if err := json.UnmarshalRead(&oneLine{out}, &res); err != nil {
		t.Fatalf("asking as %+v: %v", cred, err)
	}
	return res, p
}

// oneLine ends a reader at the first line feed.
type oneLine struct{ r io.Reader }

func (l *oneLine) Read(p []byte) (int, error) {
	if l.r == nil {
		return 0, io.EOF
	}
	n, err := l.r.Read(p[:1])
	if n == 1 && p[0] == '\n' {
		l.r = nil
	}
	return n, err
}

// systemMode starts a broker that takes itself for that of the machine. Its
// sockets are open to everybody: what keeps others out is then the broker alone.
func systemMode(t *testing.T, change func(*config.Config), options ...func(*Options)) *fixture {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can be several users; CI runs this as root")
	}
	dir, err := os.MkdirTemp("", "guard-s-")
	f := &fixture{t: t, dir: dir, clock: clock.NewFake(clock.Instant(time.Hour), time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC))}
	f.must(err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := paths.Paths{
		Mode: paths.System, RunDir: dir + "/run", StateDir: dir + "/lib", DB: dir + "/lib/guard.db", AuditDir: dir + "/lib/audit", Lock: dir + "/lib/broker.lock",
		BrokerSocket: dir + "/run/broker.sock", OperatorSocket: dir + "/run/operator.sock", OperatorGID: theGroup, GateGID: theGroup + 1, AuditGID: theGroup + 2,
	}
	for _, d := range []string{p.RunDir, p.StateDir, p.AuditDir} {
		f.must(os.Mkdir(d, 0o755))
	}
	f.must(os.Chown(p.AuditDir, 0, int(p.AuditGID)))
	f.must(os.Chmod(p.AuditDir, 0o750|os.ModeSetgid))
	f.must(os.Chmod(dir, 0o755))
	cfg := config.Default()
	if change != nil {
		change(cfg)
	}
	opt := Options{Paths: p, Config: cfg, Clock: f.clock, Log: slog.New(slog.DiscardHandler), Version: "test"}
	for _, o := range options {
		o(&opt)
	}
	f.startSystem(opt)
	return f
}

// startSystem starts it, again after f.stop.
func (f *fixture) startSystem(opt Options) {
	f.t.Helper()
	var err error
	f.Broker, err = Start(opt)
	f.must(err)
	p := opt.Paths
	for path, want := range map[string]fs.FileMode{p.BrokerSocket: 0o666, p.OperatorSocket: 0o660} {
		info, err := os.Stat(path)
		f.must(err)
		if info.Mode().Perm() != want {
			f.t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
		}
		f.must(os.Chmod(path, 0o666))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	f.eventually("the broker is ready", func() bool { return f.audit.Head().Seq > 0 })
	f.stop = sync.OnceFunc(func() { cancel(); f.must(<-done) })
	f.t.Cleanup(f.stop)
}

var askStatus = wire.Control{Verb: wire.VerbStatus}

// TestSystemModeOperators: root and members of the group are operators, nobody
// else is, also when the socket's mode would let them in; identity.operators
// narrows that.
func TestSystemModeOperators(t *testing.T) {
	everybody := systemMode(t, nil)
	narrow := systemMode(t, func(c *config.Config) { c.Identity.Operators = []string{"daemon", "%games"} })
	const daemon, games = 1, 60
	for _, tt := range []struct {
		name string
		f    *fixture
		cred syscall.Credential
		want bool
	}{
		{"root", everybody, syscall.Credential{}, true},
		{"a member", everybody, syscall.Credential{Uid: ann, Gid: ann, Groups: []uint32{9, theGroup}}, true},
		{"a member by its effective group", everybody, syscall.Credential{Uid: ann, Gid: theGroup}, true},
		{"no member", everybody, syscall.Credential{Uid: ann, Gid: ann, Groups: []uint32{9, theGroup + 1}}, false},
		{"root's group, but not root", everybody, syscall.Credential{Uid: ann, Gid: 0}, false},
		{"named", narrow, syscall.Credential{Uid: daemon, Gid: 7, Groups: []uint32{theGroup}}, true},
		{"named group", narrow, syscall.Credential{Uid: ann, Gid: 7, Groups: []uint32{games, theGroup}}, true},
		{"a member that isn't named", narrow, syscall.Credential{Uid: ann, Gid: 7, Groups: []uint32{theGroup}}, false},
		{"named, but no member", narrow, syscall.Credential{Uid: daemon, Gid: games}, false},
		{"root needs no name", narrow, syscall.Credential{}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res, p := as(t, tt.cred, tt.f.opt.Paths.OperatorSocket, askStatus)
			p.end()
			switch {
			case tt.want && (res.Error != nil || res.Status.Broker.Assurance.Operator != "separate-uid"):
				t.Errorf("refused, or another assurance: %+v, %v", res.Status, res.Error)
			case !tt.want && codeOf(res) != verdict.NotOperator:
				t.Errorf("not refused: %+v, %v", res.Status, res.Error)
			}
		})
	}
	for verb, code := range map[wire.Verb]verdict.Code{wire.VerbPassphrase: verdict.BadRequest, wire.VerbAudit: ""} {
		res, p := as(t, syscall.Credential{}, everybody.opt.Paths.OperatorSocket, wire.Control{Verb: verb, NewPassphrase: map[bool]wire.Secret{true: words}[verb == wire.VerbPassphrase]})
		p.end()
		if codeOf(res) != code {
			t.Errorf("%s: %v, want %q", verb, res.Error, code)
		}
	}
}

// TestSystemModeSessionsUser: while a user has a session, and after it, no process
// of theirs is an operator, inside of it or not, whatever its groups; another user
// is. A new broker knows it too, until the next boot. The session sees itself, and
// nobody else.
func TestSystemModeSessionsUser(t *testing.T) {
	f := systemMode(t, nil)
	operator := func(uid uint32) syscall.Credential {
		return syscall.Credential{Uid: uid, Gid: uid, Groups: []uint32{theGroup}}
	}
	register := func(uid uint32) (string, *asker) {
		t.Helper()
		res, p := as(t, operator(uid), f.opt.Paths.BrokerSocket, wire.Control{Verb: wire.VerbRegister, Register: &wire.Register{Runtime: "exec", Dir: "/", Command: "test", Hooks: wire.ProjectHooks{State: wire.ProjectAbsent}}})
		if res.Error != nil {
			t.Fatal(res.Error)
		}
		return res.Session.ID, p
	}
	_, anchor := register(ann)
	approve := wire.Control{Verb: wire.VerbRevoke, All: true}
	for _, tt := range []struct {
		uid  uint32
		code verdict.Code
	}{{ann, verdict.NotOperator}, {bob, ""}, {0, ""}} {
		res, p := as(t, operator(tt.uid), f.opt.Paths.OperatorSocket, approve)
		p.end()
		if codeOf(res) != tt.code {
			t.Errorf("uid %d: %v, want %q", tt.uid, res.Error, tt.code)
		}
		res, p = as(t, operator(tt.uid), f.opt.Paths.BrokerSocket, askStatus)
		p.end()
		if codeOf(res) != verdict.NotRegistered {
			t.Errorf("uid %d asks as a session: %+v, %v", tt.uid, res.Status, res.Error)
		}
	}
	anchor.end()
	f.eventually("the session has ended", func() bool { return !f.sessions.HasUser(ann) })
	after := func(when string, code verdict.Code) {
		t.Helper()
		res, p := as(t, operator(ann), f.opt.Paths.OperatorSocket, approve)
		p.end()
		if codeOf(res) != code {
			t.Errorf("%s: %v, want %q", when, res.Error, code)
		}
	}
	after("what the session left running", verdict.NotOperator)
	f.ended.expire(f.clock.Wall().Add(time.Hour))
	f.prune(t.Context())
	f.stop()
	f.startSystem(f.opt)
	after("a new broker, and no resume any more", verdict.NotOperator)
	records, err := f.store.Sessions()
	f.must(err)
	for _, r := range records {
		r.BootID = "another"
		f.must(f.store.PutSession(t.Context(), r))
	}
	f.stop()
	f.startSystem(f.opt)
	after("the next boot", "")
	if res, _ := as(t, syscall.Credential{}, f.opt.Paths.BrokerSocket, wire.Control{Verb: wire.VerbRegister, Register: &wire.Register{Runtime: "exec", Dir: "/", Hooks: wire.ProjectHooks{State: wire.ProjectAbsent}}}); codeOf(res) != verdict.RootSession {
		t.Errorf("a session of root: %v", res.Error)
	}
}
