package broker

import (
	"context"
	"errors"

	"leaseguard.internal/broker/checkpoint"
	"leaseguard.internal/gate/dialect"
	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/verdict"
)

// confirm answers a call that changes these machines.
type confirm func(context.Context, *call, []catalog.Target) verdict.Verdict

// protect finds what a call changes and has it confirmed.
func (b *Broker) protect(ctx context.Context, c *call, by confirm) verdict.Verdict {
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
	return by(ctx, c, targets)
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
			cause, next := unnamed(entry)
			return nil, b.choose(c, cfg.NoVM, verdict.VMMissing, verdict.Object(c.event.Tool), cause, next), true
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

// unnamed says why a call of a listed tool has no machine, and what helps.
func unnamed(entry catalog.Entry) (cause, next string) {
	if entry.VMArg == "" {
		return "its [[tool]] says neither vm_arg nor vm, so the machine it changes is unknown",
			"give its [[tool]] a vm_arg or vm in guard.toml, then: guard broker restart"
	}
	return "its arguments name no machine at " + verdict.Object(entry.VMArg), "name the machine in the call"
}

// checkpoint has every target checkpointed and confirmed.
func (b *Broker) checkpoint(ctx context.Context, c *call, targets []catalog.Target) verdict.Verdict {
	if c.set.checkpoints == nil {
		return withoutZVM(targets[0].Name)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer c.conn.CancelOnHangup(cancel)() // a gate that is gone needs no checkpoint
	infos, err := c.set.checkpoints.Ensure(ctx, checkpoint.Request{
		Session: c.session.Key(), Lowered: c.lowerings, Call: newCallID(), Targets: targets,
	})
	c.checkpoints = infos // the known machines are protected even beside an unknown one
	if err == nil && len(infos) == 0 {
		err = errNoCheckpoint
	}
	if err != nil {
		return b.checkpointRefused(c, targets, err)
	}
	return verdict.Verdict{Kind: verdict.Pass, Code: verdict.CheckpointConfirmed, Context: describe(infos)}
}

// errNoCheckpoint: the ZVM's side says that all went well, and shows nothing for it.
var errNoCheckpoint = errors.New("no checkpoint came back")

func withoutZVM(machine string) verdict.Verdict {
	return refuse(verdict.CheckpointFailed, "protecting", verdict.Object(machine), noZVM, nextZVM)
}

// Why nothing can be checkpointed, and what helps.
const (
	noZVM   = "guard.toml has no [zvm], so no checkpoint can be taken"
	nextZVM = "add [zvm] to guard.toml (or guard init --force writes it anew), then: guard broker restart"
)

func (b *Broker) checkpointRefused(c *call, targets []catalog.Target, err error) verdict.Verdict {
	f := faultOf(targets[0].Name, err)
	code := verdict.Code(f.Code)
	if code == verdict.VMUnknown {
		return b.choose(c, c.set.config.Checkpoint.UnknownVM, code, f.Object, f.Cause, f.Next)
	}
	return refuse(code, "protecting", f.Object, f.Cause, f.Next)
}

// choose answers a row that the operator decides: ask, deny or allow. Asking
// narrows to a denial where the operator said so, and where the host would run the
// tool instead.
func (b *Broker) choose(c *call, policy string, code verdict.Code, object, cause, next string) verdict.Verdict {
	asks := policy == "ask" && c.set.config.Checkpoint.OnAsk == "host"
	if asks && !dialect.Asks(c.host) {
		asks, cause = false, cause+", and this host can ask nobody"
	}
	v := verdict.Verdict{Kind: verdict.Deny, Code: code, Reason: verdict.Reason(code, "protecting", object, cause, next)}
	switch {
	case asks:
		v.Kind = verdict.Ask
	case policy == "allow":
		v = pass(code)
		if len(c.checkpoints) > 0 {
			v.Context = describe(c.checkpoints)
		}
	}
	return v
}
