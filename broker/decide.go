package broker

import (
	"context"
	"errors"

	"leaseguard.internal/broker/checkpoint"
	"leaseguard.internal/broker/lease"
	"leaseguard.internal/broker/session"
	"leaseguard.internal/gate/dialect"
	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/failpoint"
	"leaseguard.internal/internal/runtimes"
	"leaseguard.internal/internal/verdict"
)

// decide walks the decision table from the top: the first row that fits is the
// answer. Slow work comes last and is never done for a call that is denied
// anyway.
func (b *Broker) decide(ctx context.Context, c *call) verdict.Verdict {
	if v, final := b.identityRows(c); final {
		return v
	}
	switch c.event.Kind {
	case dialect.ConfigChange:
		b.settingsChanged(c)
		return refuse(verdict.ConfigChange, "taking over", "a changed settings file",
			"settings of the host may not change under a running session", "end the session and launch it again")
	case dialect.Prompt:
		return pass(promptCode)
	case dialect.ToolCall:
	default:
		return refuse(verdict.Malformed, "judging", verdict.Object(c.event.Name), "the event asks for no decision", "install the gate with --role observe for it")
	}
	if dialect.Classify(c.host, c.event.Tool) == dialect.Read {
		c.class = classRead
		if p, hit := b.guardFile(c); hit {
			return refuse(verdict.GuardFile, "reading", verdict.Object(p), "it belongs to guard itself", "leave guard's own files alone; an operator can run: guard status")
		}
		return pass(verdict.ReadClass)
	}
	if b.isRecovery(c) {
		c.class = classRecover
		return pass(verdict.Recover)
	}
	c.class = classMutator
	return b.mutator(ctx, c)
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
		next := "end that runtime; this version can't launch it"
		if name == "claude" {
			next = "end that runtime and start it by itself with: guard launch claude"
		}
		return refuse(verdict.NestedRuntime, "judging", verdict.Object(c.event.Tool),
			"it comes from another runtime, "+verdict.Object(name)+" (pid "+itoa(pid)+"), below the session's own", next), true
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
	v := b.protect(ctx, c)
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

// protect finds what a call changes and has it checkpointed.
func (b *Broker) protect(ctx context.Context, c *call) verdict.Verdict {
	cfg := &c.set.config.Checkpoint
	entry, listed := c.set.catalog.Find(c.event.Tool)
	builtin := dialect.Builtin(c.host, c.event.Tool)
	switch {
	case builtin == dialect.LeaseOnlyTool && !listed:
		return pass(verdict.LeaseOnly)
	case builtin != dialect.ChangesSelf && listed && entry.Class == catalog.ReadOnly:
		return pass(verdict.CatalogReadOnly)
	case builtin == dialect.NotBuiltin && !listed:
		return b.choose(c, cfg.Unlisted, verdict.ToolUnlisted, verdict.Object(c.event.Tool),
			"no [[tool]] of the catalog names it, so the machine it changes is unknown", "add a [[tool]] for it to guard.toml, then: guard broker restart")
	}
	targets, v, final := b.targets(c, entry, listed, builtin)
	if final {
		return v
	}
	return b.checkpoint(ctx, c, targets)
}

// targets lists the machines that the call changes.
func (b *Broker) targets(c *call, entry catalog.Entry, listed bool, builtin dialect.BuiltinKind) ([]catalog.Target, verdict.Verdict, bool) {
	cfg := &c.set.config.Checkpoint
	var targets []catalog.Target
	if listed {
		found, err := entry.Targets(c.event.Input)
		if err != nil {
			return nil, refuse(verdict.Malformed, "reading the machine in the arguments of", verdict.Object(c.event.Tool), err.Error(), "correct the arguments"), true
		}
		if len(found) == 0 && builtin != dialect.ChangesSelf {
			return nil, b.choose(c, cfg.NoVM, verdict.VMMissing, verdict.Object(c.event.Tool),
				"its arguments name no machine at "+verdict.Object(entry.VMArg), "name the machine in the call"), true
		}
		targets = found
	}
	if builtin == dialect.ChangesSelf && !cfg.SelfNone {
		if len(cfg.Self) == 0 {
			return nil, refuse(verdict.CheckpointFailed, "protecting", "this host",
				"guard.toml doesn't say which VM it is", `set checkpoint.self = "VM" in guard.toml (or "none"), then: guard broker restart`), true
		}
		for _, vm := range cfg.Self {
			targets = append(targets, catalog.Target{Name: vm, Kind: catalog.ByName, Reuse: cfg.SelfReuse})
		}
	}
	for _, t := range targets {
		c.targets = append(c.targets, t.Name)
	}
	if len(targets) == 0 {
		return nil, pass(verdict.SelfUnprotected), true
	}
	return targets, verdict.Verdict{}, false
}

// checkpoint has every target checkpointed and confirmed.
func (b *Broker) checkpoint(ctx context.Context, c *call, targets []catalog.Target) verdict.Verdict {
	if c.set.checkpoints == nil {
		return refuse(verdict.CheckpointFailed, "protecting", verdict.Object(targets[0].Name),
			"guard.toml has no [zvm], so no checkpoint can be taken", "set up the ZVM with: guard init")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer c.conn.CancelOnHangup(cancel)() // a gate that is gone needs no checkpoint
	infos, err := c.set.checkpoints.Ensure(ctx, checkpoint.Request{
		Session: c.session.Key(), Lowered: c.lowerings, Call: newCallID(), Targets: targets,
	})
	c.checkpoints = infos // the known machines are protected even beside an unknown one
	if err != nil {
		return b.checkpointRefused(c, targets, err)
	}
	if len(infos) == 0 {
		return refuse(verdict.CheckpointFailed, "protecting", verdict.Object(targets[0].Name), "no checkpoint came back", "guard log")
	}
	return verdict.Verdict{Kind: verdict.Pass, Code: verdict.CheckpointConfirmed, Context: describe(infos)}
}

func (b *Broker) checkpointRefused(c *call, targets []catalog.Target, err error) verdict.Verdict {
	var r *checkpoint.Refusal
	if !errors.As(err, &r) || r.Code == "" {
		return refuse(verdict.CheckpointFailed, "protecting", verdict.Object(targets[0].Name), err.Error(), "guard log")
	}
	if r.Code == verdict.VMUnknown {
		return b.choose(c, c.set.config.Checkpoint.UnknownVM, verdict.VMUnknown, r.Object, r.Cause, r.Next)
	}
	return refuse(r.Code, "protecting", r.Object, r.Cause, r.Next)
}

// choose answers a row that the operator decides: ask, deny or allow. Asking
// narrows to a denial where the operator said so.
func (b *Broker) choose(c *call, policy string, code verdict.Code, object, cause, next string) verdict.Verdict {
	v := verdict.Verdict{Kind: verdict.Deny, Code: code, Reason: verdict.Reason(code, "protecting", object, cause, next)}
	switch policy {
	case "allow":
		v = pass(code)
		if len(c.checkpoints) > 0 {
			v.Context = describe(c.checkpoints)
		}
	case "ask":
		if c.set.config.Checkpoint.OnAsk == "host" {
			v.Kind = verdict.Ask
		}
	}
	return v
}
