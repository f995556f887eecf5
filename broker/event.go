package broker

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/broker/session"
	"leaseguard.internal/gate/dialect"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// call is one hook event under judgement. Everything that a decision learns is
// collected here, for the record.
type call struct {
	id      string
	conn    *peer.Conn
	peer    peer.Peer
	host    wire.Host
	role    wire.Role
	flags   uint8
	began   clock.Instant
	event   dialect.Event
	session *session.Session // nil: not inside a live registered session
	path    []session.Step   // from the caller up to the anchor
	own     bool             // the host itself sent it
	note    string           // what a call that has run was found to be

	lowerings   uint64 // the lease's count when it was first looked at
	class       string
	targets     []string
	checkpoints []wire.CheckpointInfo
}

// serveEvent judges one event of a host and answers its gate.
func (b *Broker) serveEvent(ctx context.Context, conn *peer.Conn, p peer.Peer, h wire.Header) {
	ctx, cancel := context.WithTimeout(ctx, max(b.opt.Config.Launch.Budget-reserve, reserve/5))
	defer cancel()
	c := &call{id: newCallID(), conn: conn, peer: p, host: h.Host, role: h.Role, flags: h.Flags, began: b.opt.Clock.Now()}
	s, path, err := b.sessions.Find(p.Process())
	if err != nil && !errors.Is(err, session.ErrNotRegistered) {
		b.opt.Log.Info("proving a caller's lineage", "pid", p.PID(), "error", err)
	}
	if err == nil {
		c.session, c.path = s, path
		c.own = b.hostsOwn(c)
	}
	v, leave := b.admit(conn, c, h)
	if leave != nil {
		defer leave()
		v = b.judge(ctx, c)
	}
	if err := b.recordVerdict(ctx, c, v); err != nil && v.Kind == verdict.Pass && c.class == classMutator {
		v = refuse(verdict.Internal, "recording", verdict.Object(c.event.Tool), "the audit could not be written: "+err.Error(), "guard status")
	}
	b.reply(conn, dialect.Render(h.Host, h.Role, c.event, v))
}

// admit takes the session's slot, then reads and parses the payload. A nil
// leave means that the verdict is final.
func (b *Broker) admit(conn *peer.Conn, c *call, h wire.Header) (v verdict.Verdict, leave func()) {
	free := func() {}
	if c.session != nil {
		limit := b.opt.Config.Limits.CallsPerSession
		f, ok := c.session.Enter(limit)
		if !ok {
			b.drain(conn, h)
			return busyVerdict("session "+c.session.ID, "it has as many calls in flight as limits.calls_per_session allows"), nil
		}
		free = f
	}
	v, err := b.parse(conn, c, h)
	if err != nil || v.Code != "" {
		free()
		return v, nil
	}
	if c.session == nil {
		return refuse(verdict.NotRegistered, "looking up the session of", "pid "+itoa(c.peer.PID()),
			"no live registered session is among its ancestors",
			"start the agent with: guard launch RUNTIME"), nil
	}
	return verdict.Verdict{}, free
}

// parse reads the payload under the byte budget. A verdict with a code refuses.
func (b *Broker) parse(conn *peer.Conn, c *call, h wire.Header) (verdict.Verdict, error) {
	limit := b.opt.Config.Limits.Payload
	if h.Flags&wire.FlagOversize != 0 || int64(h.BodyLen) > limit {
		b.drain(conn, h)
		return refuse(verdict.Malformed, "reading", "the hook payload", "it is over the limit of limits.payload, "+itoa(int(limit))+" bytes",
			"make the call smaller, or raise limits.payload"), nil
	}
	req, give, err := b.receive(conn, h)
	if errors.Is(err, errBusy) {
		b.drain(conn, h)
		return busyVerdict("the broker", err.Error()), nil
	}
	if err != nil {
		return refuse(verdict.Malformed, "reading", "the hook payload", err.Error(), "check what calls the gate"), err
	}
	defer give()
	c.event, err = dialect.Parse(c.host, c.role, req.Body)
	if err != nil {
		if c.session != nil && c.own && c.role == wire.RoleDecide {
			c.session.Unparsed()
		}
		return refuse(verdict.Malformed, "parsing", "the hook payload", err.Error(),
			"make the call again; if that fails too, the host's version is not one that guard knows"), nil
	}
	return verdict.Verdict{}, nil
}

// judge is the decision, with a panic in it as one more reason to deny.
func (b *Broker) judge(ctx context.Context, c *call) (v verdict.Verdict) {
	defer func() {
		if r := recover(); r != nil {
			b.opt.Log.Error("judging a call panicked", "tool", c.event.Tool, "panic", r)
			v = refuse(verdict.Internal, "judging", verdict.Object(c.event.Tool), "the broker met a fault of its own", "guard log, then report it")
		}
	}()
	b.hear(ctx, c)
	if c.role == wire.RoleObserve {
		b.ran(c)
		return verdict.Verdict{Kind: verdict.Pass, Code: observedCode}
	}
	v = b.decide(ctx, c)
	b.remember(c, v)
	return v
}

// hear takes in what an event tells about the session, before it is judged.
func (b *Broker) hear(ctx context.Context, c *call) {
	if !c.session.Launched() {
		return
	}
	if c.event.HostSession != "" && c.own {
		if before, changed := c.session.HostSession(c.event.HostSession); changed {
			b.lower(c.session, lease.Observed, "the host's session id changed from "+verdict.Object(before)+" to "+verdict.Object(c.event.HostSession))
		}
	}
	if what, lost := c.event.LostContext(); lost {
		b.lower(c.session, lease.Observed, "the host told of lost context: "+what)
	}
	b.seeDirectory(c.session)
	if c.own {
		b.noteGate(ctx, c.session)
	}
}

// inputDigest identifies a tool's input in the record without keeping it: the
// key stays in the store, so a short input can't be guessed from its digest.
func (b *Broker) inputDigest(input []byte) string {
	if len(input) == 0 {
		return ""
	}
	m := hmac.New(sha256.New, b.key[:])
	_, _ = m.Write(input) // a hash never fails
	return hex.EncodeToString(m.Sum(nil))
}
