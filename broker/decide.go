package broker

import (
	"context"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/broker/session"
	"leaseguard.internal/gate/dialect"
	"leaseguard.internal/internal/failpoint"
	"leaseguard.internal/internal/runtimes"
	"leaseguard.internal/internal/verdict"
)

// decide walks the decision table from the top: the first row that fits is the
// answer. Slow work comes last and is never done for a call that is denied
// anyway.
func (b *Broker) decide(ctx context.Context, c *call) verdict.Verdict {
	if v, final := b.identityRows(c); final && (c.event.Kind != dialect.Prompt || v.Code != verdict.Proving) {
		return v
	}
	switch c.event.Kind {
	case dialect.ConfigChange:
		b.settingsChanged(c)
		return refuse(verdict.ConfigChange, "taking over", "a changed settings file",
			"settings of the host may not change under a running session", "end the session and launch it again")
	case dialect.Prompt:
		return b.promptRow(ctx, c)
	case dialect.ToolCall:
	default:
		return refuse(verdict.Malformed, "judging", verdict.Object(c.event.Name), "the event asks for no decision", "install the gate with --role observe for it")
	}
	if v, final := b.freeRows(c); final {
		if c.class == classRead && v.Kind == verdict.Pass {
			if denied, final := b.policies(ctx, c); final {
				return denied
			}
		}
		return v
	}
	return b.mutator(ctx, c)
}

// freeRows are the rows of calls that need no lease. What fits none is a mutator.
func (b *Broker) freeRows(c *call) (verdict.Verdict, bool) {
	if dialect.Classify(c.host, c.event.Tool) == dialect.Read {
		c.class = classRead
		if p, hit := b.guardFile(c); hit {
			return refuse(verdict.GuardFile, "reading", verdict.Object(p), "it belongs to guard itself", "leave guard's own files alone; an operator can run: guard status"), true
		}
		return pass(verdict.ReadClass), true
	}
	if b.isRecovery(c) {
		c.class = classRecover
		return pass(verdict.Recover), true
	}
	c.class = classMutator
	return verdict.Verdict{}, false
}

// identityRows are the rows that ask who calls.
func (b *Broker) identityRows(c *call) (verdict.Verdict, bool) {
	if !c.session.Launched() {
		if b.installedGate(c) {
			c.session.HeardProving()
		}
		return refuse(verdict.Proving, "judging", verdict.Object(c.event.Tool), "session "+c.session.ID+" has not started its runtime yet, nonce "+c.session.Nonce,
			"wait until guard launch has started the runtime"), true
	}
	if b.sessions.ByID(c.session.ID) != c.session {
		return refuse(verdict.GenerationStale, "judging", verdict.Object(c.event.Tool), "a newer launch has taken over session "+c.session.ID,
			"use the newer session"), true
	}
	if name, pid, nested := nestedRuntime(c); nested {
		return refuse(verdict.NestedRuntime, "judging", verdict.Object(c.event.Tool),
			"it comes from another runtime, "+verdict.Object(name)+" (pid "+itoa(pid)+"), below the session's own",
			"end that runtime and start it by itself with: guard launch "+name), true
	}
	if b.runners.above(c.path) {
		return refuse(verdict.NestedRuntime, "judging", verdict.Object(c.event.Tool), "it comes from a policy hook of guard's own, which may start no agent",
			"have the hook decide by itself"), true
	}
	return verdict.Verdict{}, false
}

// nestedRuntime finds a runtime between the caller and the anchor. An exec
// session's anchor counts too: it may have become a runtime since its launch. A
// process of which nothing can be read has ended, which the second look finds.
func nestedRuntime(c *call) (name string, pid int, nested bool) {
	for i, step := range c.path {
		if i == 0 && c.gate || step.PID == c.session.Anchor.PID() && c.session.Runtime != runtimes.Exec {
			continue // known already
		}
		if name, nested := step.Runtime(); nested {
			return name, step.PID, true
		}
	}
	return "", 0, false
}

// mutator judges a call that may change something.
func (b *Broker) mutator(ctx context.Context, c *call) verdict.Verdict {
	l := c.session.Lease(b.opt.Clock.Now())
	if l.State() != lease.Verified {
		return leaseVerdict(c.event.Tool, c.session, l)
	}
	c.lowerings = l.Lowerings()
	ctx, cancel := context.WithTimeout(ctx, b.left(c))
	defer cancel()
	if v, final := b.policies(ctx, c); final {
		return v
	}
	v := b.protect(ctx, c, b.checkpoint)
	if v.Kind == verdict.Deny {
		return v
	}
	return b.secondLook(c, v)
}

// secondLook asks identity and lease again after the slow work. A renewal in
// between is fine; any event that lowered authority isn't, even if the lease
// has been verified anew since.
func (b *Broker) secondLook(c *call, v verdict.Verdict) verdict.Verdict {
	if gone, is := b.gone(c); is {
		return gone
	}
	s := c.session
	l := s.Lease(b.opt.Clock.Now())
	if l.State() != lease.Verified {
		return leaseVerdict(c.event.Tool, s, l)
	}
	if l.Lowerings() != c.lowerings || b.outdated(c.set) {
		return refuse(verdict.LeaseRevoked, "judging", verdict.Object(c.event.Tool), "the lease was revoked while the call was judged", "make the call again")
	}
	return v
}

// gone says whether the caller is no longer in the session that it was found in:
// it, its way up to the anchor, or the anchor has ended. It is asked right before
// any pass is written. An anchor that lives on without its first thread is told
// by /proc alone, where a read call doesn't look: what ends soon after is enough
// for that.
func (b *Broker) gone(c *call) (verdict.Verdict, bool) {
	err := failpoint.Hit("broker/last-look") // where an attack gets the time that it needs
	if err == nil {
		var s *session.Session
		if s, _, err = b.sessions.Find(c.peer.Process()); err == nil && s != c.session {
			err = session.ErrNotRegistered
		}
	}
	ended := false
	if err == nil && c.class == classMutator {
		ended, err = c.session.Anchor.LeaderEnded()
	}
	if err == nil && !ended {
		return verdict.Verdict{}, false
	}
	return refuse(verdict.NotRegistered, "judging", verdict.Object(c.event.Tool), "caller or session ended while the call was judged", "launch the session again"), true
}
