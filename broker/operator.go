package broker

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/broker/session"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// serveOperator answers one request of operator.sock. A process that has an
// anchor among its ancestors is a session, whatever it says: it sees itself and
// nothing else.
func (b *Broker) serveOperator(ctx context.Context, conn *peer.Conn, busy bool) {
	p, err := conn.Authenticate()
	if err != nil {
		b.opt.Log.Info("refusing a peer of the operator socket", "error", err)
		return
	}
	// Who calls is known before a byte is read: sessions have few slots of their
	// own, and none of an operator's.
	caller := b.identify(p)
	kind := b.operators
	if caller.refused != "" || caller.session != nil {
		kind = b.insiders
	}
	if !kind.take() {
		if kind == b.insiders {
			return
		}
		busy = true
	} else {
		defer kind.give()
	}
	b.deadline(conn, headerTime)
	h, err := wire.ReadHeader(conn, wire.Limits{Control: wire.MaxControl, Body: wire.MaxContext})
	if errors.Is(err, io.EOF) {
		return // somebody only looked whether a broker listens
	}
	if err != nil || h.Kind != wire.KindControl {
		b.opt.Log.Info("refusing a request of the operator socket", "pid", p.PID(), "error", err)
		return
	}
	if busy {
		b.drain(conn, h)
		b.result(conn, wire.Result{Error: wireError(verdict.BrokerBusy, "answering", "", "as many operator connections as it can hold are open", "try again")})
		return
	}
	b.deadline(conn, bodyTime)
	req, err := wire.ReadBody(conn, h) // bounded by the slots, not by the calls' byte budget
	if err != nil {
		b.opt.Log.Info("refusing a request of the operator socket", "pid", p.PID(), "error", err)
		return
	}
	var ctl wire.Control
	if err := strictjson.Decode(req.Control, &ctl); err != nil {
		b.result(conn, wire.Result{Error: wireError(verdict.BadRequest, "reading", "the request", err.Error(), "use the guard that belongs to this broker")})
		return
	}
	ctx, cancel := context.WithTimeout(ctx, verbTime)
	defer cancel()
	b.result(conn, b.perform(ctx, p, caller, ctl, req.Body))
}

// caller is who connected to the operators' socket.
type caller struct {
	session *session.Session // it is inside this one
	refused string           // why it is no operator, although it is in no session
}

// identify proves that the peer is an operator, or finds what it is.
func (b *Broker) identify(p peer.Peer) caller {
	s, _, err := b.sessions.Find(p.Process())
	switch {
	case err == nil:
		return caller{session: s}
	case !errors.Is(err, session.ErrNotRegistered):
		return caller{refused: "its ancestors could not be proved: " + err.Error()}
	case p.UID() != b.opt.UID && p.UID() != 0:
		return caller{refused: "uid " + itoa(int(p.UID())) + " is not the broker's"}
	}
	return caller{}
}

// perform runs an operator's verb. Who they are is asked again: the caller may
// have been put into a session since it connected.
func (b *Broker) perform(ctx context.Context, p peer.Peer, was caller, ctl wire.Control, body []byte) wire.Result {
	now := b.identify(p)
	switch {
	case now.session != nil && now.session == was.session && ctl.Verb == wire.VerbStatus:
		return wire.Result{Status: b.status(now.session)}
	case now.session != nil:
		return b.notOperator(p, ctl, "the caller is inside session "+now.session.ID)
	case now.refused != "" || was != (caller{}):
		return b.notOperator(p, ctl, cmp.Or(now.refused, was.refused, "its session has ended"))
	}
	return b.verb(ctx, ctl, body)
}

// committedHead is the newest record on disk. The very first is waited for, so
// that a check right after the first start finds a head.
func (b *Broker) committedHead(ctx context.Context) audit.Head {
	for b.audit.Head().Seq == 0 && b.audit.Err() == nil {
		if clock.Sleep(ctx, 10*time.Millisecond) != nil {
			break
		}
	}
	return b.audit.Head()
}

func (b *Broker) notOperator(p peer.Peer, ctl wire.Control, cause string) wire.Result {
	// The session that the caller names is his own text, and no key of ours.
	b.recordOften(audit.Record{Event: audit.EventSession, Code: string(verdict.NotOperator), CallerPID: p.PID(),
		Reason: "verb " + verdict.Object(string(ctl.Verb)) + " for " + verdict.Object(ctl.Session) + ": " + cause})
	return wire.Result{Error: wireError(verdict.NotOperator, "serving", "an operator's command", cause, "run it from a terminal outside any session")}
}

func (b *Broker) verb(ctx context.Context, ctl wire.Control, body []byte) wire.Result {
	switch ctl.Verb {
	case wire.VerbStatus:
		return wire.Result{Status: b.status(nil)}
	case wire.VerbRevoke:
		return b.revoke(ctl)
	case wire.VerbAudit:
		h := b.committedHead(ctx)
		return wire.Result{Audit: &wire.Head{Seq: h.Seq, Hash: h.Hash, Dir: b.opt.Paths.AuditDir, Alarmed: b.audit.Err() != nil || b.audit.Fault() != ""}}
	case wire.VerbStop:
		b.stop()
		return wire.Result{}
	case wire.VerbContext, wire.VerbVerify, wire.VerbPromote, wire.VerbApprove, wire.VerbRenew:
		if !b.grants.take() { // those that wait for the disk leave room for those that revoke
			return wire.Result{Error: wireError(verdict.BrokerBusy, "running", verdict.Object(string(ctl.Verb)), "as many approvals as it can hold are being written", "try again")}
		}
		defer b.grants.give()
		return b.grant(ctx, ctl, body)
	default:
		return wire.Result{Error: wireError(verdict.BadRequest, "running", verdict.Object(string(ctl.Verb)), "this socket doesn't take the verb", "guard broker restart, if guard was upgraded")}
	}
}

// result writes a control request's answer.
func (b *Broker) result(conn *peer.Conn, r wire.Result) {
	r.Time = b.opt.Clock.Wall()
	out, err := json.Marshal(r)
	if err != nil {
		b.opt.Log.Error("encoding a result", "error", err)
		return
	}
	kind := wire.Reply{Kind: wire.KindResult, Out: out}
	if r.Error != nil {
		kind.Exit = 1
	}
	b.reply(conn, kind)
}

func wireError(code verdict.Code, what, object, cause, next string) *wire.Error {
	return &wire.Error{Code: string(code), Message: verdict.Reason(code, what, object, cause, next)}
}

// find returns the session that a verb names.
func (b *Broker) find(ctl wire.Control) (*session.Session, *wire.Error) {
	s := b.sessions.ByID(ctl.Session)
	if s == nil || s.Gone() {
		return nil, wireError(verdict.NoSuchSession, "looking up session", verdict.Object(ctl.Session), "no live session has this id", "guard status")
	}
	if ctl.Generation != 0 && ctl.Generation != s.Generation {
		return nil, wireError(verdict.GenerationStale, "looking up session", verdict.Object(ctl.Session), "it has been launched anew since", "guard status, then try again")
	}
	return s, nil
}

func ttlOf(ctl wire.Control) *time.Duration {
	if ctl.TTLSeconds == nil {
		return nil
	}
	const most = int64(1) << 30 // far above any cap, and far below an overflow
	d := time.Duration(min(max(*ctl.TTLSeconds, -most), most)) * time.Second
	return &d
}
