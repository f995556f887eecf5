package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/zerto"
)

// group is one VPG of a call, with the machines of the call that are in it.
type group struct {
	id, name string
	machines []zerto.VM
	reuse    time.Duration // the least that any of its targets allows

	tag        string
	checkpoint zerto.Checkpoint
	reused     bool
}

// found is what became of one target.
type found struct {
	rows    []zerto.VM
	refusal *Refusal
}

// resolve looks all targets up and sorts what counts by VPG. A refusal that
// denies comes before one about an unknown machine, which is returned apart.
func (s *Service) resolve(ctx context.Context, targets []catalog.Target) (groups []*group, unknown, refusal *Refusal) {
	all := make([]found, len(targets))
	var wg sync.WaitGroup
	for i, t := range targets {
		wg.Go(func() { all[i] = s.find(ctx, t) })
	}
	wg.Wait()
	for i, f := range all {
		switch {
		case f.refusal == nil:
			groups = addRows(groups, f.rows, targets[i].Reuse)
		case f.refusal.Code != verdict.VMUnknown:
			return nil, nil, f.refusal
		case unknown == nil:
			unknown = f.refusal
		}
	}
	return groups, unknown, nil
}

func addRows(groups []*group, rows []zerto.VM, reuse time.Duration) []*group {
	for _, vm := range rows {
		i := slices.IndexFunc(groups, func(g *group) bool { return g.id == vm.VPGID })
		if i < 0 {
			i = len(groups)
			groups = append(groups, &group{id: vm.VPGID, name: vm.VPGName, reuse: reuse})
		}
		g := groups[i]
		g.reuse = min(g.reuse, reuse)
		if !slices.ContainsFunc(g.machines, func(o zerto.VM) bool { return o.ID == vm.ID }) {
			g.machines = append(g.machines, vm)
		}
	}
	return groups
}

// find returns the rows of the one machine that the target names, one for each
// VPG that counts.
func (s *Service) find(ctx context.Context, t catalog.Target) found {
	key := catalog.Target{Name: t.Name, Kind: t.Kind}
	rows, ok := s.machines.get(key)
	if !ok {
		var refusal *Refusal
		if rows, refusal = s.lookUp(ctx, key); refusal != nil {
			return found{refusal: refusal}
		}
		s.machines.put(key, rows)
	}
	if t.VPG != "" {
		named := slices.DeleteFunc(slices.Clone(rows), func(vm zerto.VM) bool { return vm.VPGName != t.VPG })
		if len(named) == 0 {
			return found{refusal: &Refusal{
				Code: verdict.CheckpointFailed, Object: vmObject(t.Name),
				Cause: "VPG " + verdict.Object(t.VPG) + " doesn't protect it, but " + candidates(rows),
				Next:  "correct vpg of this tool in guard.toml, then: guard broker restart",
			}}
		}
		rows = named
	}
	for _, vm := range rows {
		if refusal := platform(vmObject(vm.Name), vm.Protected); refusal != nil {
			return found{refusal: refusal}
		}
	}
	return found{rows: rows}
}

// lookUp asks the ZVM, and chooses among its rows: its filter is a hint.
func (s *Service) lookUp(ctx context.Context, t catalog.Target) ([]zerto.VM, *Refusal) {
	q, value := zerto.Query{Name: t.Name}, func(vm zerto.VM) string { return vm.Name }
	if t.Kind == catalog.ByIdentifier {
		q, value = zerto.Query{Identifier: t.Name}, func(vm zerto.VM) string { return vm.ID }
		if !zerto.IsIdentifier(t.Name) {
			return nil, unknownVM(t.Name, "it hasn't the form of a Zerto VM identifier, GUID.moref")
		}
	}
	if t.Name == "" {
		return nil, unknownVM(t.Name, "the name is empty")
	}
	rows, err := s.zvm.VMs(ctx, q)
	if err != nil {
		return nil, lookUpFailed(ctx, t.Name, err)
	}
	return choose(t.Name, rows, value)
}

// lookUpFailed sorts the errors of the first request of a call: whether the
// machine is unknown, and whether it is a ZVM at all that was asked.
func lookUpFailed(ctx context.Context, name string, err error) *Refusal {
	e, ok := errors.AsType[*zerto.Error](err)
	switch {
	case !ok || ctx.Err() != nil:
	case e.Status == http.StatusNotFound:
		return unsupported(vmObject(name), "zvm.url leads to a server without the ZVM's API (Zerto In-Cloud and Windows ZVMs have another): "+err.Error())
	case e.Status == http.StatusBadRequest && !e.Token:
		r := unknownVM(name, err.Error())
		r.Err = err
		return r
	}
	return fromError(ctx, vmObject(name), err)
}

// choose returns the rows that fit exactly, if they are of one machine.
func choose(name string, rows []zerto.VM, value func(zerto.VM) string) ([]zerto.VM, *Refusal) {
	var exact, near []zerto.VM
	machines := map[string]bool{}
	for _, vm := range rows {
		switch {
		case value(vm) == name:
			exact = append(exact, vm)
			machines[vm.ID] = true
		case strings.EqualFold(value(vm), name):
			near = append(near, vm)
		}
	}
	ambiguous := &Refusal{Code: verdict.VMAmbiguous, Object: vmObject(name), Next: nextIdentifier}
	switch {
	case len(machines) > 1:
		ambiguous.Cause = fmt.Sprintf("%d machines are called so: %s", len(machines), candidates(exact))
		return nil, ambiguous
	case len(exact) > 0:
		return exact, nil
	case len(near) > 0:
		ambiguous.Cause = "no machine is called exactly so, but " + candidates(near)
		ambiguous.Next = "write the name exactly as in Zerto, then repeat the call"
		return nil, ambiguous
	default:
		return nil, unknownVM(name, "the ZVM at zvm.url protects no machine of this name")
	}
}

func unknownVM(name, cause string) *Refusal {
	return &Refusal{Code: verdict.VMUnknown, Object: vmObject(name), Cause: cause, Next: nextUnknown}
}

// candidates lists machines for a reason, the first few.
func candidates(rows []zerto.VM) string {
	const most = 5
	var list []string
	for _, vm := range rows[:min(len(rows), most)] {
		list = append(list, fmt.Sprintf("%s (%s) in VPG %s", verdict.Object(vm.Name), verdict.Object(vm.ID), verdict.Object(vm.VPGName)))
	}
	text := strings.Join(list, ", ")
	if len(rows) > most {
		text += fmt.Sprintf(" and %d more", len(rows)-most)
	}
	return text
}
