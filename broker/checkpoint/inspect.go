package checkpoint

import (
	"context"
	"slices"
	"sync"

	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/zerto"
)

// The platforms whose changes run through a journal that can be tagged.
var taggable = []string{"VCVpg", "VCvApp", "VCDvApp", "HyperV"}

// The sub-statuses in which a VPG takes tags: replicating, or synchronising
// part of its volumes. All others, and unknown ones, stand still or end it.
var replicating = []string{"None", "RecoveryPossible", "VolumeInitialSync", "DeltaSync", "VolumeDeltaSync", "VolumeFullSync", "BitmapSync"}

// inspectAll looks at all groups at once and returns the first refusal in their
// order.
func (s *Service) inspectAll(ctx context.Context, req Request, groups []*group) *Refusal {
	return together(groups, func(g *group) *Refusal {
		steps := []func(context.Context, *group) *Refusal{
			s.checkStatus, s.checkSite,
			func(ctx context.Context, g *group) *Refusal { return s.reuse(ctx, req, g) },
		}
		return together(steps, func(step func(context.Context, *group) *Refusal) *Refusal { return step(ctx, g) })
	})
}

// together runs f for each of list at once and returns the first refusal in
// the order of list.
func together[T any](list []T, f func(T) *Refusal) *Refusal {
	refusals := make([]*Refusal, len(list))
	var wg sync.WaitGroup
	for i, v := range list {
		wg.Go(func() { refusals[i] = f(v) })
	}
	wg.Wait()
	i := slices.IndexFunc(refusals, func(r *Refusal) bool { return r != nil })
	if i < 0 {
		return nil
	}
	return refusals[i]
}

// platform refuses what can't be tagged. A platform that the ZVM doesn't name
// here is left to the look at the site.
func platform(object string, e zerto.Enum) *Refusal {
	if e.Missing() || slices.Contains(taggable, e.Name) {
		return nil
	}
	return unsupported(object, "it is protected on "+e.String()+", where a tag never reaches the journal")
}

// checkStatus reads the VPG anew for each call: a status is worth nothing when
// it is old.
func (s *Service) checkStatus(ctx context.Context, g *group) *Refusal {
	vpg, err := s.zvm.VPG(ctx, g.id)
	if err != nil {
		return fromError(ctx, g.object(), err)
	}
	if refusal := platform(g.object(), vpg.Protected); refusal != nil {
		return refusal
	}
	if vpg.Status.Name == "" || !slices.Contains(s.opt.AcceptStatus, vpg.Status.Name) {
		return g.failed("its status is "+vpg.Status.String()+", which checkpoint.accept_status doesn't list", nextRepeat)
	}
	if !slices.Contains(replicating, vpg.SubStatus.Name) {
		return g.failed("its sub-status is "+vpg.SubStatus.String()+", in which it takes no tags", nextRepeat)
	}
	return nil
}

// checkSite cross-checks the platform by the type of the protected site.
func (s *Service) checkSite(ctx context.Context, g *group) *Refusal {
	vm := g.machines[0]
	if !vm.Site.Local() && !vm.Site.Peer() {
		if vm.Protected.Missing() {
			return unsupported(g.object(), "the ZVM says neither platform nor site of what it protects")
		}
		return nil
	}
	site, ok := s.sites.get(vm.Site)
	if !ok {
		var err error
		if site, err = s.zvm.Site(ctx, vm.Site); err != nil {
			return fromError(ctx, g.object(), err)
		}
		s.sites.put(vm.Site, site)
	}
	if site.Cloud() || site.Type == "" && vm.Protected.Missing() {
		return unsupported(g.object(), "its protected site "+verdict.Object(site.Name)+" is of type "+
			verdict.Object(site.Type)+", where a tag never reaches the journal")
	}
	return nil
}
