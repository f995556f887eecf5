package broker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"leaseguard.internal/broker/session"
	"leaseguard.internal/broker/store"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/runtimes"
	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// serveControl answers a control request of broker.sock: a launcher's, or one of
// a session's own recovery tool.
func (b *Broker) serveControl(ctx context.Context, conn *peer.Conn, g guest, h wire.Header) {
	p := g.peer
	req, give, err := b.receive(conn, g.tree, h)
	switch {
	case errors.Is(err, errBusy):
		b.result(conn, wire.Result{Error: wireError(verdict.BrokerBusy, "reading", "the request", err.Error(), "try again")})
		return
	case errors.Is(err, errOutside):
		b.result(conn, wire.Result{Error: wireError(verdict.BadRequest, "reading", "the request", err.Error(), "use the guard that belongs to this broker")})
		return
	case err != nil:
		return
	}
	defer give()
	var ctl wire.Control
	if err := strictjson.Decode(req.Control, &ctl); err != nil {
		b.result(conn, wire.Result{Error: wireError(verdict.BadRequest, "reading", "the request", err.Error(), "use the guard that belongs to this broker")})
		return
	}
	if ctl.Verb == wire.VerbRegister && ctl.Register != nil {
		b.serveRegister(ctx, conn, p, *ctl.Register, req.Body)
		return
	}
	verbCtx, cancel := context.WithTimeout(ctx, verbTime)
	defer cancel()
	b.result(conn, b.sessionVerb(verbCtx, p, ctl, req.Body))
}

// sessionVerb answers a process that is inside a session.
func (b *Broker) sessionVerb(ctx context.Context, p peer.Peer, ctl wire.Control, body []byte) wire.Result {
	s, path, err := b.sessions.Find(p.Process())
	if err != nil {
		return wire.Result{Error: wireError(verdict.NotRegistered, "looking up the session of", "pid "+itoa(p.PID()), "no live registered session is among its ancestors", "start the agent with: guard launch RUNTIME")}
	}
	switch ctl.Verb {
	case wire.VerbStatus: // in system mode no session opens the other socket
		return wire.Result{Status: b.status(s)}
	case wire.VerbExplain:
		return b.explain(ctx, s, path, ctl, body, b.unasked)
	case wire.VerbProofKnown, wire.VerbProofDone:
		return b.proof(p, s, ctl)
	case wire.VerbContext, wire.VerbRecoverBegin, wire.VerbRecoverPromote:
		return b.recover(ctx, p, s, path, ctl, body)
	default:
		return wire.Result{Error: wireError(verdict.BadRequest, "running", verdict.Object(string(ctl.Verb)), "this socket doesn't take the verb", "use the guard that belongs to this broker")}
	}
}

// serveRegister makes the connecting process the anchor of a new session. The
// connection stays open until the process execs its runtime, which closes it:
// that is how the broker learns of the moment.
func (b *Broker) serveRegister(ctx context.Context, conn *peer.Conn, p peer.Peer, r wire.Register, project []byte) {
	verbCtx, cancel := context.WithTimeout(ctx, verbTime)
	defer cancel()
	s, werr := b.register(verbCtx, p, r, project)
	if werr != nil {
		b.recordOften(audit.Record{Event: audit.EventSession, Code: werr.Code, Reason: werr.Message, CallerPID: p.PID()})
		b.result(conn, wire.Result{Error: werr})
		return
	}
	view := s.View(b.opt.Clock.Now())
	b.result(conn, wire.Result{Session: &view, Launch: &wire.Launch{Nonce: s.Nonce, Server: s.Server}, Warnings: b.definitions.Warn(s.ID, s.Generation)})
	b.awaitExec(ctx, conn, s)
}

// register checks what a launcher asks for and adds the session. The record is
// on disk before the launcher hears of it.
func (b *Broker) register(ctx context.Context, p peer.Peer, r wire.Register, project []byte) (*session.Session, *wire.Error) {
	if !runtimes.Valid(r.Runtime) || !filepath.IsAbs(r.Dir) || len(r.Dir) > 4096 || len(r.Command) > 4096 {
		return nil, wireError(verdict.BadRequest, "registering", verdict.Object(r.Runtime), "runtime, directory or command is not well formed", "guard launch --help")
	}
	if werr := checkProject(r.Hooks, project); werr != nil {
		return nil, werr
	}
	privileged, err := p.Process().Privileged()
	if err != nil {
		return nil, wireError(verdict.Internal, "registering", "pid "+itoa(p.PID()), err.Error(), "launch again")
	}
	if privileged && !b.settings().config.Identity.AllowRootSessions {
		return nil, wireError(verdict.RootSession, "registering", "pid "+itoa(p.PID()),
			"it runs as root, or with capabilities that let it undo guard",
			"launch as an ordinary user; or set identity.allow_root_sessions = true in guard.toml, then guard broker restart")
	}
	anchor, err := p.Process().Dup()
	if err != nil {
		return nil, wireError(verdict.Internal, "registering", "pid "+itoa(p.PID()), err.Error(), "launch again")
	}
	s := &session.Session{
		ID: newSessionID(), Generation: 1, Runtime: r.Runtime, UID: p.UID(), Dir: filepath.Clean(r.Dir), Command: verdict.Cut(verdict.Clean(r.Command), maxCommand),
		Anchor: anchor, Started: b.opt.Clock.Wall(), Unenforced: privileged, Nonce: randomHex(16), Unattended: r.Unattended,
		Fell: b.fell,
	}
	if b.settings().config.Lease.Promotion == "self" && r.Runtime != runtimes.Exec {
		s.Server = "guard-" + randomHex(8)
	}
	werr := b.own(s)
	if werr == nil {
		werr = b.resume(s, r.Resume)
	}
	if werr != nil {
		_ = anchor.Close()
		return nil, werr
	}
	s.Start(false, false)
	if werr := b.addSession(ctx, s, store.Project{Hooks: r.Hooks, Text: project}); werr != nil {
		_ = anchor.Close()
		return nil, werr
	}
	return s, nil
}

// resume takes over an ended session's id with the next generation.
func (b *Broker) resume(s *session.Session, id string) *wire.Error {
	if id == "" {
		return nil
	}
	old, ok := b.ended.find(id)
	if last := b.sessions.ByID(id); last != nil {
		if last.Anchor.Alive() {
			return wireError(verdict.BadRequest, "resuming", verdict.Object(id), "its runtime still lives", "end it first, or launch without --resume")
		}
		old, ok = b.sessionRecord(last), true // it has just ended, and the watch hasn't told yet
	}
	if !ok {
		return wireError(verdict.NoSuchSession, "resuming", verdict.Object(id), "no ended session has this id, or several begin so", "guard log --event session shows them; or launch without --resume")
	}
	if old.UID != s.UID || old.Runtime != s.Runtime {
		return wireError(verdict.NoSuchSession, "resuming", verdict.Object(id), "it belonged to another user or runtime", "launch without --resume")
	}
	s.ID, s.Generation = old.ID, old.Generation+1
	if old.Alarm != "" {
		s.Lock(old.Alarm) // an alarm is an operator's to clear, not a new launch's
	}
	return nil
}

// addSession makes the session known, then durable. A session whose record
// can't be written is taken back.
func (b *Broker) addSession(ctx context.Context, s *session.Session, project store.Project) *wire.Error {
	pid := "pid " + itoa(s.Anchor.PID())
	b.adopt(s, project)
	err := b.sessions.Add(s)
	if err != nil {
		b.definitions.Forget(s.ID, s.Generation)
	}
	switch {
	case errors.Is(err, session.ErrNested) || errors.Is(err, session.ErrTaken):
		return wireError(verdict.NestedLaunch, "registering", pid, "it already is inside a session", "launch from outside the session")
	case errors.Is(err, session.ErrLimit):
		return wireError(verdict.LimitReached, "registering", pid, err.Error(), "end a session, or raise limits.sessions_per_uid")
	case err != nil:
		return wireError(verdict.Internal, "registering", pid, err.Error(), "launch again")
	}
	if err := b.storeSession(ctx, s, project); err != nil {
		b.sessions.Remove(s)
		b.definitions.Forget(s.ID, s.Generation)
		return wireError(verdict.StoreFailed, "registering", s.ID, err.Error(), "make room for the state directory, then: guard broker restart")
	}
	b.ended.forget(s.ID)
	b.keepAnchor(s)
	b.enclose(ctx, s)
	b.record(b.sessionEvent(s, "registered", s.Command))
	return nil
}

// awaitExec waits for the end of the launcher's connection. If the anchor lives
// on after it, the runtime has been exec'd.
func (b *Broker) awaitExec(ctx context.Context, conn *peer.Conn, s *session.Session) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b.spawn(func() { // whoever else holds the connection, it means nothing without the anchor
		defer cancel()
		_ = s.Anchor.WaitEnd(ctx)
	})
	_ = conn.SetDeadline(time.Time{})
	if err := conn.WaitClosed(ctx); err != nil {
		return // the launcher said something more, or the broker stops
	}
	if s.Anchor.Alive() {
		s.MarkLaunched(b.opt.Clock.Now())
		if err := b.putSession(ctx, s); err != nil {
			b.opt.Log.Warn("storing that a runtime runs", "session", s.ID, "error", err) // after a restart it would have to be launched anew
		}
		b.record(b.sessionEvent(s, "launched", ""))
	}
}

// storeSession stores a new session with its project.
func (b *Broker) storeSession(ctx context.Context, s *session.Session, project store.Project) error {
	defer s.Save()()
	return b.store.AddSession(ctx, b.sessionRecord(s), project)
}

// putSession stores what is known of the session by now.
func (b *Broker) putSession(ctx context.Context, s *session.Session) error {
	defer s.Save()()
	return b.store.PutSession(ctx, b.sessionRecord(s))
}

func (b *Broker) sessionRecord(s *session.Session) store.Session {
	return store.Session{
		ID: s.ID, Runtime: s.Runtime, Dir: s.Dir, Command: s.Command, BootID: b.bootID, UID: s.UID, Generation: s.Generation,
		PID: s.Anchor.PID(), Inode: s.Anchor.Inode(), StartTime: s.Anchor.StartTime(), GateSeen: s.Lease(b.opt.Clock.Now()).GateSeen(), Started: s.Started,
		Server: s.Server, Alarm: s.Alarm(), Launched: s.Launched(),
	}
}

// maxCommand is how much of a command people see.
const maxCommand = 200

func newSessionID() string { return randomHex(8) }

func newCallID() string { return randomHex(8) }

func randomHex(n int) string {
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		panic(fmt.Sprintf("reading random bytes: %v", err)) // the kernel's source does not fail; without it nothing can be named
	}
	return hex.EncodeToString(b)
}
