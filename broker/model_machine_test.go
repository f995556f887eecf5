//go:build failpoint

package broker

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/broker/store"
	"leaseguard.internal/broker/token"
	"leaseguard.internal/internal/agenttest"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/wire"
)

// machine is a broker in this process, with its store and audit in a directory
// and a process as each session's anchor, beside the model of it.
type machine struct {
	*Broker
	model *model
	dir   string
	clock *clock.Fake
	disk  *disk
	spare []*agenttest.Agent // processes that are in no session
	end   func() error

	raising atomic.Pointer[string] // the session whose promotion is under way
	broken  atomic.Pointer[string] // what a look at a commit point found

	saved map[string][]byte // an older state directory
	slept time.Duration
}

// failer is what testing and rapid share.
type failer interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// newMachine makes a machine whose broker is still to be started.
func newMachine(t failer, spare []*agenttest.Agent) *machine {
	dir, err := os.MkdirTemp(scratch(), "guard-m-")
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{model: newModel(), dir: dir, spare: spare,
		clock: clock.NewFake(clock.Instant(time.Hour), time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC))}
	m.disk = watchDisk(filepath.Join(dir, ".local/state/guard"), m.look)
	return m
}

// scratch is a place in memory, if there is one: waiting for a disk would be
// most of this test's time.
func scratch() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// start starts the broker on what is in the directory.
func (m *machine) start() error {
	env := map[string]string{"HOME": m.dir, "XDG_RUNTIME_DIR": filepath.Join(m.dir, "run")}
	uid := uint32(os.Getuid())
	p, err := paths.Resolve(func(k string) string { return env[k] }, uid)
	if err != nil {
		return err
	}
	for _, d := range []string{p.RunDir, p.StateDir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	cfg := config.Default()
	cfg.Identity.AllowRootSessions = true
	cfg.Checkpoint.Self = []string{"app-01"}
	b, err := Start(Options{Paths: p, Config: cfg, UID: uid, Clock: m.clock, Log: slog.New(slog.DiscardHandler), Version: "test", Checkpoints: &stubZVM{}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	m.Broker, m.end = b, func() error { cancel(); return <-done }
	return nil
}

func (m *machine) mustStart(t failer) {
	if err := m.start(); err != nil {
		t.Fatalf("starting the broker: %v", err)
	}
}

// close ends the broker and returns the processes, for the next one.
func (m *machine) close() []*agenttest.Agent {
	if m.end != nil {
		_ = m.end() // after a failed disk it complains
	}
	m.disk.stop()
	_ = os.RemoveAll(m.dir)
	for _, s := range m.model.sessions {
		m.spare = append(m.spare, s.agent)
	}
	return m.spare
}

// look is called at each commit point: P2 at the moments where it could break.
func (m *machine) look(point string) {
	id := m.raising.Load()
	if id == nil || !strings.HasPrefix(point, "broker/") || point == "broker/verified" {
		return
	}
	if s := m.sessions.ByID(*id); s != nil && s.Lease(m.clock.Now()).State() == lease.Verified {
		what := "P2: it is VERIFIED at " + point
		m.broken.Store(&what)
	}
}

// operator asks through the operators' socket, as this process, which is in no
// session. What fails is no grant, whatever the reason.
func (m *machine) operator(ctl wire.Control) (wire.Result, bool) {
	if slices.Contains([]wire.Verb{wire.VerbVerify, wire.VerbApprove, wire.VerbRenew, wire.VerbPromote}, ctl.Verb) {
		ctl.Documents = []wire.Document{{Name: "AGENTS.md", Missing: true}}
	}
	r, err := client.Dial(m.opt.Paths).Do(context.Background(), ctl, nil)
	return r, err == nil
}

// event has an agent send one event of a host; it answers the code of the denial,
// empty for a pass.
func (m *machine) event(a *agenttest.Agent, name, tool string) (string, error) {
	req := wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleDecide,
		Body: fmt.Appendf(nil, `{"hook_event_name":%q,"session_id":"s","tool_name":%q,"tool_input":{}}`, name, tool)}
	if name != "PreToolUse" {
		req.Role = wire.RoleObserve
	}
	r, err := a.Send(m.opt.Paths, req)
	if err != nil || r.Exit == 0 && len(r.Err) == 0 {
		return "", err
	}
	code, _, _ := strings.Cut(strings.TrimPrefix(string(r.Err), "guard: "), ":")
	return code, nil
}

// agent takes a process that is in no session.
func (m *machine) agent(t failer) *agenttest.Agent {
	if n := len(m.spare); n > 0 {
		a := m.spare[n-1]
		m.spare = m.spare[:n-1]
		return a
	}
	a, err := agenttest.Start()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// restart ends the broker, or takes it for killed if the disk struck, and starts
// it again on what is left, or on the given files.
func (m *machine) restart(t failer, files map[string][]byte) {
	err := m.end()
	if struck := m.disk.struck(); err != nil && struck == "" {
		t.Fatalf("stopping the broker: %v", err)
	}
	if left := m.disk.reset(); files == nil {
		files = left
	}
	if files != nil {
		if err := m.disk.restore(files); err != nil {
			t.Fatal(err)
		}
	}
	m.mustStart(t)
	m.model.restarted()
	m.whole(t)
	for _, s := range m.sessions.All() {
		if l := s.Lease(m.clock.Now()); l.State() != lease.Unverified {
			t.Fatalf("P4: session %s is %s after a restart", s.ID, l.State())
		}
	}
}

// whole holds that the store is the one that was, and the audit's chain unbroken
// up to the head in it.
func (m *machine) whole(t failer) {
	if aside, _ := filepath.Glob(m.opt.Paths.DB + "?*"); len(aside) > 0 {
		t.Fatalf("the store was set aside: %q", aside)
	}
	head, kept, err := m.store.Head()
	if err != nil {
		t.Fatal(err)
	}
	stored := &head
	if !kept {
		stored = nil
	}
	report, err := audit.Verify(m.opt.Paths.AuditDir, stored)
	if err != nil || report.Fault != nil {
		t.Fatalf("the audit after a restart: %+v, %v", report.Fault, err)
	}
}

// reconcile compares the sessions of a restarted broker with the model's. An
// older state directory may lack some.
func (m *machine) reconcile(t failer, older bool) {
	m.forgotten(t, older)
	for _, id := range m.model.ids() {
		k, s := m.model.sessions[id], m.sessions.ByID(id)
		whole := s != nil && s.Generation == k.generation && s.Launched()
		if !whole && !older {
			t.Fatalf("session %s of a live anchor is gone after a restart: %+v", id, s)
		}
		if !whole {
			k.agent.Kill()
			delete(m.model.sessions, id)
			continue
		}
		if seen := s.Lease(m.clock.Now()).GateSeen(); !seen && k.seen && !older {
			t.Fatalf("session %s: that its gate was seen is forgotten", id)
		} else {
			k.seen = seen
		}
	}
}

// forgotten is P1 across crashes: what was used stays so. Whether a token was used
// whose promotion nobody heard of, only the store knows.
func (m *machine) forgotten(t failer, older bool) {
	for _, text := range m.model.minted {
		tok, err := token.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		row, _, err := m.store.LookupToken(tok.Hash())
		if err != nil || m.model.used[text] && row.State != store.Consumed && !older {
			t.Fatalf("P1: a used token is %q after a restart (%v)", row.State, err)
		}
		m.model.used[text] = row.State == store.Consumed
	}
}

// eventually waits for what the broker does beside its answers.
func (m *machine) eventually(t failer, what string, done func() bool) {
	deadline := time.Now().Add(20 * time.Second)
	for !done() && m.disk.struck() == "" {
		if time.Now().After(deadline) {
			t.Fatalf("it never happened that %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
