package broker

import (
	"context"
	"errors"
	"sync"
	"time"

	"leaseguard.internal/broker/checkpoint"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// askZVM runs the verbs that ask the ZVM. Like those that wait for the disk they
// leave room for those that revoke.
func (b *Broker) askZVM(ctx context.Context, p peer.Peer, ctl wire.Control, body []byte) wire.Result {
	if !b.grants.take() {
		return wire.Result{Error: wireError(verdict.BrokerBusy, "running", verdict.Object(string(ctl.Verb)), "as many requests as it can hold wait for the ZVM or the disk", "try again")}
	}
	defer b.grants.give()
	switch ctl.Verb {
	case wire.VerbExplain:
		return b.explain(ctx, nil, nil, ctl, body, b.look)
	case wire.VerbCheckpoint:
		return b.takeCheckpoint(ctx, p, ctl)
	default:
		var server *wire.PolicyServer
		var probing sync.WaitGroup
		probing.Go(func() { server = b.probeServer(ctx) })
		r := b.inspect(ctx)
		probing.Wait()
		r.Policies = server
		r.Proofs = b.proofs.of(p.UID(), b.opt.Clock.Now())
		return r
	}
}

// takeCheckpoint has a checkpoint of one machine taken and confirmed, for an
// operator who asks for it by hand. It gives no session anything: what is reused
// is reused by the session that it was taken for.
func (b *Broker) takeCheckpoint(ctx context.Context, p peer.Peer, ctl wire.Control) wire.Result {
	if ctl.VM == "" {
		return wire.Result{Error: wireError(verdict.BadRequest, "taking", "a checkpoint", "no machine is named", "guard checkpoint VM")}
	}
	set, began, id := b.settings(), b.opt.Clock.Now(), newCallID()
	r := audit.Record{Event: audit.EventBroker, CallerPID: p.PID(), Code: string(verdict.CheckpointConfirmed), Targets: []string{ctl.VM}}
	var werr *wire.Error
	if set.checkpoints == nil {
		werr = wireError(verdict.CheckpointFailed, "protecting", verdict.Object(ctl.VM), noZVM, nextZVM)
	} else {
		const nobody = "operator " // no session's key begins so
		target := catalog.Target{Name: ctl.VM, Kind: catalog.ByName}
		if ctl.Identifier {
			target.Kind = catalog.ByIdentifier
		}
		infos, err := set.checkpoints.Ensure(ctx, checkpoint.Request{Session: nobody + id, Call: "operator-" + id, Targets: []catalog.Target{target}})
		set.checkpoints.Forget(nobody + id)
		r.Checkpoint = infos
		if err == nil && len(infos) == 0 {
			err = errNoCheckpoint
		}
		if f := faultOf(ctl.VM, err); f != nil {
			werr = wireError(verdict.Code(f.Code), "protecting", f.Object, f.Cause, f.Next)
		}
	}
	if werr != nil {
		r.Code, r.Reason, r.Checkpoint = werr.Code, werr.Message, nil
	}
	r.DurationUS = b.opt.Clock.Now().Sub(began).Microseconds()
	b.record(r)
	return wire.Result{Error: werr, Checkpoints: r.Checkpoint}
}

// faultOf takes a refusal apart.
func faultOf(machine string, err error) *wire.Fault {
	var r *checkpoint.Refusal
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &r) || r.Code == "":
		return &wire.Fault{Code: string(verdict.CheckpointFailed), Object: verdict.Object(machine), Cause: err.Error(), Next: "guard log"}
	}
	return &wire.Fault{Code: string(r.Code), Object: r.Object, Cause: r.Cause, Next: r.Next}
}

const (
	inspectTime  = 20 * time.Second // for all that the ZVM is asked: less than its asker waits
	inspectsEach = 8                // machines that are asked about at once
)

// inspect asks the ZVM about itself and about the machines of guard.toml, and
// changes nothing.
func (b *Broker) inspect(ctx context.Context) wire.Result {
	ctx, cancel := context.WithTimeout(ctx, inspectTime)
	defer cancel()
	set := b.settings()
	z := &wire.ZVM{Machines: []wire.Machine{}}
	if set.checkpoints == nil {
		return wire.Result{ZVM: z}
	}
	if set.config.ZVM != nil {
		z.URL = set.config.ZVM.URL
	}
	before := b.opt.Clock.Wall()
	now, err := set.checkpoints.Time(ctx)
	if z.Fault = faultOf("the ZVM", err); z.Fault != nil {
		return wire.Result{ZVM: z} // nor would it say anything of machines
	}
	after := b.opt.Clock.Wall()
	z.SkewMS = now.Sub(before.Add(after.Sub(before) / 2)).Milliseconds()
	z.Machines = b.machines(ctx, set)
	return wire.Result{ZVM: z}
}

// machines asks about each machine that guard.toml names.
func (b *Broker) machines(ctx context.Context, set *settings) []wire.Machine {
	targets, from := listed(set)
	all := make([]wire.Machine, len(targets))
	turns := make(chan struct{}, inspectsEach)
	var work sync.WaitGroup
	for i, t := range targets {
		turns <- struct{}{}
		work.Go(func() {
			defer func() { <-turns }()
			infos, err := set.checkpoints.Look(ctx, []catalog.Target{t})
			all[i] = wire.Machine{Name: t.Name, From: from[i], VPGs: []string{}, Fault: faultOf(t.Name, err)}
			for _, info := range infos {
				all[i].VPGs = append(all[i].VPGs, info.VPG)
			}
		})
	}
	work.Wait()
	return all
}

// listed lists the machines of checkpoint.self and of the catalog, each once.
func listed(set *settings) (targets []catalog.Target, from []string) {
	seen := map[catalog.Target]bool{}
	add := func(t catalog.Target, where string) {
		if !seen[t] {
			seen[t] = true
			targets, from = append(targets, t), append(from, where)
		}
	}
	for _, vm := range set.config.Checkpoint.Self {
		add(catalog.Target{Name: vm, Kind: catalog.ByName}, "checkpoint.self")
	}
	for _, e := range set.config.Tools {
		for _, vm := range e.VM {
			add(catalog.Target{Name: vm, Kind: catalog.ByName, VPG: e.VPG}, e.Match)
		}
	}
	return targets, from
}
