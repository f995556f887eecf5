package broker

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/broker/session"
	"leaseguard.internal/gate/dialect"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// call is one hook event under judgement. Everything that a decision learns is
// collected here, for the record.
type call struct {
	conn    *peer.Conn
	peer    peer.Peer
	host    wire.Host
	role    wire.Role
	stdin   int // pid of the process that made the caller's stdin, or line of Codex, as the caller says
	began   clock.Instant
	event   dialect.Event
	set     *settings        // by which it is judged
	session *session.Session // nil: not inside a live registered session
	path    []session.Step   // from the caller up to the anchor
	own     bool             // the host itself sent it
	gate    bool             // the caller was seen to run the installed gate
	note    string           // what a call that has run was found to be

	lowerings   uint64 // the lease's count when it was first looked at
	class       string
	targets     []string
	checkpoints []wire.CheckpointInfo
	policies    []audit.PolicyResult

	release []func() // what was taken for the call
	memory  func()   // gives back the payload's; nil: nothing is held
}

// leave gives back what the call has taken.
func (c *call) leave() {
	for _, f := range c.release {
		f()
	}
	c.forget()
}

// forget gives back the memory of the payload.
func (c *call) forget() {
	if c.memory != nil {
		c.memory()
		c.memory = nil
	}
}

// serveEvent judges one event of a host and answers its gate.
func (b *Broker) serveEvent(ctx context.Context, conn *peer.Conn, g guest, h wire.Header) {
	c := &call{set: b.settings(), conn: conn, peer: g.peer, host: h.Host, role: h.Role, stdin: int(h.Peer), began: b.opt.Clock.Now(), session: g.session, path: g.path}
	c.own = c.session != nil && !b.runners.above(c.path) && b.hostsOwn(c)
	if c.own {
		c.release = append(c.release, c.session.Calling(g.peer.Process(), g.path))
	}
	v, admitted := b.admit(ctx, conn, c, h)
	defer c.leave()
	if admitted {
		v = b.judge(ctx, c)
	}
	if c.role == wire.RoleObserve && v.Kind != verdict.Pass && c.session != nil && c.session.Launched() {
		// It may have told of lost context; nobody will know.
		b.lower(c.session, lease.Observed, "an event of the host could not be taken in: "+string(v.Code))
	}
	if v.Kind == verdict.Pass && c.class == classMutator {
		v = b.commit(ctx, c, v)
		g.leave() // who has its answer may ask again at once
		b.answer(c, v)
		b.digest(c)
		return
	}
	if v.Kind != verdict.Deny && c.role == wire.RoleDecide {
		if gone, is := b.gone(c); is {
			v = gone
			b.remember(c, v)
		}
	}
	r := b.outcome(c, v)
	g.leave()
	b.answer(c, v)
	b.recordCall(r, c.event.Input) // it grants nothing, so that nobody has to wait for it
	b.digest(c)
}

// left is the time that the slow steps of a call have.
func (b *Broker) left(c *call) time.Duration {
	return max(c.set.config.Launch.Budget-reserve-b.opt.Clock.Now().Sub(c.began), reserve/5)
}

// commit writes the pass of a mutator down and looks once more: its record waits
// for the disk, and what lowers a lease doesn't wait for that.
func (b *Broker) commit(ctx context.Context, c *call, v verdict.Verdict) verdict.Verdict {
	ctx, cancel := context.WithTimeout(ctx, b.left(c))
	defer cancel()
	r := b.outcome(c, v)
	r.InputSHA256 = b.inputDigest(c.event.Input)
	if _, err := b.audit.Append(ctx, b.stamped(r)); err != nil {
		denied := refuse(verdict.Internal, "recording", verdict.Object(c.event.Tool), "the audit could not be written: "+err.Error(), "guard status")
		b.remember(c, denied)
		return denied
	}
	last := b.secondLook(c, v)
	if last.Kind != verdict.Pass {
		taken := b.outcome(c, last)
		taken.InputSHA256 = r.InputSHA256
		b.recordOften(taken) // takes back the pass that is on record; a denial needs no disk
		b.remember(c, last)
	}
	return last
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
		return b.seen(ctx, c)
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
	if c.own && c.event.Leaves() {
		b.parted(c.session)
		return
	}
	if what, lost := c.event.LostContext(); lost {
		b.lower(c.session, lease.Observed, "the host told of lost context: "+what)
	}
	b.seeDirectory(c.session)
	b.seeDeaf(c.session)
	if c.own && c.event.Model != "" && c.event.Agent == "" {
		c.session.SpeaksTo(c.event.Model)
	}
	if c.own {
		b.noteGate(ctx, c.session, c.event.Greets())
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
