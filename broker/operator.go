package broker

import (
	"bytes"
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
func (b *Broker) serveOperator(ctx context.Context, conn *peer.Conn, g guest) {
	p := g.peer
	groups, err := b.groupsOf(conn)
	if err != nil {
		b.opt.Log.Info("refusing a peer of the operator socket", "pid", p.PID(), "error", err)
		return
	}
	caller := b.identify(p, groups)
	b.deadline(conn, headerTime)
	h, err := wire.ReadHeader(conn, wire.Limits{Control: wire.MaxControl, Body: wire.MaxContext})
	if errors.Is(err, io.EOF) {
		return // somebody only looked whether a broker listens
	}
	if err != nil || h.Kind != wire.KindControl {
		b.opt.Log.Info("refusing a request of the operator socket", "pid", p.PID(), "error", err)
		return
	}
	if g.busy != nil {
		b.turnAway(conn, g, h)
		return
	}
	b.deadline(conn, bodyTime)
	req, err := wire.ReadBody(conn, h) // bounded by the slots, not by the calls' byte budget
	if err != nil {
		b.opt.Log.Info("refusing a request of the operator socket", "pid", p.PID(), "error", err)
		return
	}
	g.heard()
	var ctl wire.Control
	if err := strictjson.Decode(req.Control, &ctl); err != nil {
		b.result(conn, wire.Result{Error: wireError(verdict.BadRequest, "reading", "the request", err.Error(), "use the guard that belongs to this broker")})
		return
	}
	within := verbTime
	if ctl.Verb == wire.VerbCheckpoint {
		within = b.settings().config.Checkpoint.Timeout + reserve
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if ctl.Verb == wire.VerbCheckpoint {
		defer conn.CancelOnHangup(cancel)() // who is gone needs none; all else is done all the same
	}
	b.result(conn, b.perform(ctx, p, groups, caller, ctl, req.Body))
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

func (b *Broker) verb(ctx context.Context, ctl wire.Control, body []byte) wire.Result {
	switch ctl.Verb {
	case wire.VerbStatus:
		return wire.Result{Status: b.status(nil)}
	case wire.VerbRevoke:
		r, sessions := b.revoke(ctl)
		if ctl.Kill {
			b.endTrees(ctx, sessions, &r)
		}
		b.warnUnrecorded(ctx, &r)
		return r
	case wire.VerbAudit:
		h := b.committedHead(ctx)
		return wire.Result{Audit: &wire.Head{Seq: h.Seq, Hash: h.Hash, Dir: b.opt.Paths.AuditDir, Alarmed: b.audit.Err() != nil || b.audit.Fault() != ""}}
	case wire.VerbStop:
		b.stop()
		return wire.Result{}
	case wire.VerbContext:
		return b.context(ctl)
	case wire.VerbVerify, wire.VerbPromote, wire.VerbApprove, wire.VerbRenew, wire.VerbPassphrase:
		if !b.grants.take() { // those that wait for the disk leave room for those that revoke
			return wire.Result{Error: wireError(verdict.BrokerBusy, "running", verdict.Object(string(ctl.Verb)), "as many approvals as it can hold are being written", "try again")}
		}
		defer b.grants.give()
		return b.raise(ctx, ctl, body)
	default:
		return wire.Result{Error: wireError(verdict.BadRequest, "running", verdict.Object(string(ctl.Verb)), "this socket doesn't take the verb", "guard broker restart, if guard was upgraded")}
	}
}

// result writes a control request's answer.
func (b *Broker) result(conn *peer.Conn, r wire.Result) {
	r.Time = b.opt.Clock.Wall()
	size, exit := wire.ReplySize+1024, uint8(0)
	if r.Status != nil {
		size += len(r.Status.Sessions) * sessionSize
	}
	if r.Error != nil {
		exit = 1
	}
	frame := bytes.NewBuffer(make([]byte, wire.ReplySize, size))
	if err := json.MarshalWrite(frame, r); err != nil {
		b.opt.Log.Error("encoding a result", "error", err)
		return
	}
	b.send(conn, wire.ResultFrame(frame.Bytes(), exit))
}

// sessionSize is about what a session takes in a status.
const sessionSize = 640

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
