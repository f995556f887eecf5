//go:build attacks

package attacks

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"encoding/json"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/proc"
	"leaseguard.internal/internal/sandbox"
	"leaseguard.internal/internal/sandbox/sandboxtest"
	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/wire"
)

// base lets root run the attacks too, and a change pass without a ZVM.
const base = `[identity]
allow_root_sessions = true

[checkpoint]
self = "none"
`

// kernels are those that the broker is made to believe in.
var kernels = []string{"", "6.9", "5.3"}

// onKernels runs an attack on this kernel, and as on older ones.
func onKernels(t *testing.T, attack func(*testing.T, *world)) {
	t.Helper()
	for _, k := range kernels {
		t.Run("kernel "+k, func(t *testing.T) { attack(t, start(t, "GUARD_KERNEL="+k)) })
	}
}

// world is a small machine with a broker, and processes that attack it.
type world struct {
	*sandboxtest.World
	*testproc.Zoo
}

// start makes one, with a broker that sees env.
func start(t *testing.T, env ...string) *world {
	t.Helper()
	w := &world{World: sandboxtest.New(t, programs, append(os.Environ(), agentVar+"=1"))}
	w.Zoo = testproc.New(t) // it ends first
	w.Must(w.Configure(base))
	w.Must(w.StartBroker(w.Ctx(), env...))
	return w
}

// eventually waits until done says yes.
func (w *world) eventually(what string, done func() bool) {
	w.T.Helper()
	if err := w.Wait(w.Ctx(), done); err != nil {
		w.T.Fatalf("it never happened that %s: %v", what, err)
	}
}

// stopped is what happens while the broker is stopped: all of it is in the
// kernel when it goes on.
func (w *world) stopped(happens func()) {
	w.T.Helper()
	w.Must(syscall.Kill(w.BrokerPID(), syscall.SIGSTOP))
	var info unix.Siginfo // until its last thread stands still
	w.Must(unix.Waitid(unix.P_PID, w.BrokerPID(), &info, unix.WSTOPPED, nil))
	defer func() { w.Must(syscall.Kill(w.BrokerPID(), syscall.SIGCONT)) }()
	happens()
}

// Frames.

func control(ctl wire.Control, body ...byte) string {
	text, err := json.Marshal(ctl)
	if err != nil {
		panic(err)
	}
	return string(wire.AppendRequest(nil, wire.Request{Kind: wire.KindControl, Control: text, Body: body}))
}

// register is the frame of a launcher in our directory, where all processes are.
func register(runtime string) string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return control(wire.Control{Verb: wire.VerbRegister, Register: &wire.Register{Runtime: runtime, Dir: dir, Command: "an attack", Hooks: wire.ProjectHooks{State: wire.ProjectAbsent}}})
}

func approve(session string) string {
	return control(wire.Control{Verb: wire.VerbApprove, Session: session, Documents: documents})
}

var documents = []wire.Document{{Name: "AGENTS.md", Missing: true}}

func payload(event, tool string) string {
	return fmt.Sprintf(`{"hook_event_name":%q,"session_id":"conversation","cwd":"/","tool_name":%q,"tool_input":{},"tool_use_id":"toolu_1"}`, event, tool)
}

// event is the frame of a gate that is asked about a tool, and that tells who
// made its stdin.
func event(peer int, body string) string {
	return string(wire.AppendRequest(nil, wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleDecide, Peer: uint32(peer), Body: []byte(body)}))
}

// oversize is the frame of a gate whose payload was too large.
func oversize(body string) string {
	return string(wire.AppendRequest(nil, wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleDecide, Flags: wire.FlagOversize, Body: []byte(body)}))
}

func call(tool string) string { return event(0, payload("PreToolUse", tool)) }

// answer reads what the broker answers on p's connection, up to its end.
func (w *world) answer(p *testproc.Proc) (wire.Reply, bool) {
	w.T.Helper()
	var got strings.Builder
	for {
		text, err := p.Read()
		if errors.Is(err, io.EOF) || err != nil && strings.Contains(err.Error(), "reset") {
			break
		}
		w.Must(err)
		got.WriteString(text)
		if r, err := wire.ReadReply(strings.NewReader(got.String()), wire.MaxControl); err == nil {
			return r, true
		}
	}
	if got.Len() > 0 {
		w.T.Fatalf("half an answer: %q", got.String())
	}
	return wire.Reply{}, false
}

// silence holds the broker to give no answer on p's connection.
func (w *world) silence(p *testproc.Proc, why string) {
	w.T.Helper()
	if r, answered := w.answer(p); answered {
		w.T.Errorf("%s: answered with exit %d: %s%s", why, r.Exit, r.Out, r.Err)
	}
}

// ask has p make one request and returns the answer.
func (w *world) ask(p *testproc.Proc, socket, frame string) wire.Reply {
	w.T.Helper()
	p.Connect(socket)
	defer p.Hangup()
	p.Write(frame)
	r, answered := w.answer(p)
	if !answered {
		w.T.Fatalf("process %d got no answer", p.PID)
	}
	return r
}

func (w *world) result(r wire.Reply) (res wire.Result) {
	w.T.Helper()
	w.Must(json.Unmarshal(r.Out, &res))
	return res
}

// expect holds p's call to a verdict: pass, or the code of a denial.
func (w *world) expect(p *testproc.Proc, tool, want string) {
	w.T.Helper()
	w.is(w.ask(p, w.Paths.BrokerSocket, call(tool)), want)
}

func (w *world) is(r wire.Reply, want string) {
	w.T.Helper()
	got := sandbox.Code(string(r.Err))
	if r.Exit == 0 && len(r.Err) == 0 && !bytes.Contains(r.Out, []byte("permissionDecision\"")) {
		got = "pass"
	}
	if got != want {
		w.T.Errorf("exit %d %s%s: want %s", r.Exit, r.Out, r.Err, want)
	}
}

// refused holds p's order to a refusal.
func (w *world) refused(p *testproc.Proc, socket, frame, code string) {
	w.T.Helper()
	if res := w.result(w.ask(p, socket, frame)); res.Error == nil || res.Error.Code != code {
		w.T.Errorf("process %d: %+v, want %s", p.PID, res, code)
	}
}

// session makes p the anchor of a new session that runs.
func (w *world) session(p *testproc.Proc, runtime string) string {
	w.T.Helper()
	p.Connect(w.Paths.BrokerSocket)
	p.Write(register(runtime))
	r, answered := w.answer(p)
	if !answered {
		w.T.Fatalf("registering process %d: no answer", p.PID)
	}
	res := w.result(r)
	if res.Error != nil {
		w.T.Fatalf("registering process %d: %v", p.PID, res.Error)
	}
	p.Hangup() // as exec does
	w.eventually("the session runs", func() bool { s := w.find(res.Session.ID); return s != nil && s.Launched })
	return res.Session.ID
}

// verified makes p the anchor of a session with a lease.
func (w *world) verified(p *testproc.Proc) string {
	w.T.Helper()
	id := w.session(p, "exec")
	w.expect(p, "Read", "pass")
	w.approve(id)
	w.expect(p, "Write", "pass")
	return id
}

func (w *world) operate(ctl wire.Control) wire.Result {
	w.T.Helper()
	res, err := client.Dial(w.Paths).Do(w.Ctx(), ctl, nil)
	var refused *wire.Error
	if errors.As(err, &refused) {
		return wire.Result{Error: refused}
	}
	w.Must(err)
	return res
}

func (w *world) approve(id string) {
	w.T.Helper()
	if res := w.operate(wire.Control{Verb: wire.VerbApprove, Session: id, Documents: documents}); res.Error != nil {
		w.T.Fatalf("approving: %v", res.Error)
	}
}

// sessions are all that the broker knows.
func (w *world) sessions() []wire.Session {
	w.T.Helper()
	res := w.operate(wire.Control{Verb: wire.VerbStatus})
	if res.Error != nil {
		w.T.Fatal(res.Error)
	}
	return res.Status.Sessions
}

func (w *world) find(id string) *wire.Session {
	w.T.Helper()
	for _, s := range w.sessions() {
		if s.ID == id {
			return &s
		}
	}
	return nil
}

// state is the state of a session's lease, or "gone".
func (w *world) state(id string) string {
	w.T.Helper()
	if s := w.find(id); s != nil {
		return s.State
	}
	return "gone"
}

// records are those of the audit that keep says yes to.
func (w *world) records(keep func(audit.Record) bool) (found []audit.Record) {
	w.T.Helper()
	w.Must(audit.Read(w.Paths.AuditDir, func(r audit.Record, _ []byte) error {
		if keep(r) {
			found = append(found, r)
		}
		return nil
	}))
	return found
}

// gate is the command line of the installed gate.
func (w *world) gate(role string) []string {
	return []string{w.Programs.Gate, "claude", "--socket", w.Paths.BrokerSocket, "--broker-uid", fmt.Sprint(os.Getuid()), "--role", role}
}

// reply is a gate's output as a broker's answer.
func reply(o testproc.Output) wire.Reply {
	return wire.Reply{Exit: uint8(o.Exit), Out: o.Out, Err: o.Err}
}

// brokerFiles is how many descriptors the broker has open, which root alone can
// see.
func (w *world) brokerFiles() int {
	w.T.Helper()
	entries, err := os.ReadDir(filepath.Join("/proc", fmt.Sprint(w.BrokerPID()), "fd"))
	w.Must(err)
	return len(entries)
}

var statusOnly = wire.Control{Verb: wire.VerbStatus}

// zombie says whether the process's first thread has ended.
func zombie(pid int) bool {
	d, err := proc.Open(pid)
	if err != nil {
		return false
	}
	defer func() { _ = d.Close() }()
	st, err := d.Stat()
	return err == nil && st.State == 'Z'
}
