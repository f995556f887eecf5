package checkpoint

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
	"leaseguard.internal/internal/zerto"
)

// Finder tells what the ZVM knows of machines, VPGs and sites.
type Finder interface {
	VMs(context.Context, zerto.Query) ([]zerto.VM, error)
	VPG(ctx context.Context, id string) (zerto.VPG, error)
	Site(context.Context, zerto.SiteRef) (zerto.Site, error)
}

// Inserter makes checkpoints.
type Inserter interface {
	Now(context.Context) (time.Time, error)
	InsertCheckpoint(ctx context.Context, vpgID, tag string) (task string, err error)
	Task(ctx context.Context, id string) (zerto.Task, error)
}

// Lister reads checkpoints back.
type Lister interface {
	Checkpoints(ctx context.Context, vpgID string, since time.Time) ([]zerto.Checkpoint, error)
}

// ZVM is all that this package asks of one.
type ZVM interface {
	Finder
	Inserter
	Lister
}

// Request is what one guarded call needs.
type Request struct {
	Session string
	Lowered uint64           // the session's revocation counter; reuse ends when it changes
	Call    string           // names the call in the tag, for people
	Targets []catalog.Target // every machine that the call changes
}

// Options are the operator's choices.
type Options struct {
	AcceptStatus []string      // names of VPG statuses that pass; none passes when empty
	Timeout      time.Duration // for one call, and for one insert
}

// Service confirms checkpoints. It has to be closed.
type Service struct {
	zvm      ZVM
	clk      clock.Clock
	opt      Options
	pace     pace
	machines *cache[catalog.Target, []zerto.VM]
	sites    *cache[zerto.SiteRef, zerto.Site]
	memory   *memory

	ctx  context.Context // ends with the service; what is in flight outlives its calls
	stop context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex
	lanes  map[string]*lane // by VPG identifier, only while something is in flight
	closed bool
}

// New returns a service that asks zvm.
func New(zvm ZVM, clk clock.Clock, opt Options) *Service {
	s := &Service{
		zvm: zvm, clk: clk, opt: opt, pace: defaultPace,
		machines: newCache[catalog.Target, []zerto.VM](clk),
		sites:    newCache[zerto.SiteRef, zerto.Site](clk),
		memory:   newMemory(clk), lanes: map[string]*lane{},
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Ensure returns one confirmed checkpoint for each machine and VPG that counts,
// or a *Refusal. When some targets are unknown to Zerto and nothing else is
// wrong, the others are confirmed all the same, and come back beside a Refusal
// of code vm_unknown: whether the unknown ones matter is the operator's choice,
// and the known ones are protected whatever it is.
func (s *Service) Ensure(ctx context.Context, req Request) ([]wire.CheckpointInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.Timeout)
	defer cancel()
	groups, unknown, refusal := s.prepare(ctx, req)
	if refusal == nil {
		refusal = s.insertAll(ctx, req, groups)
	}
	if refusal != nil {
		return nil, refusal
	}
	return outcome(groups, unknown)
}

// prepare looks up the machines and judges their VPGs, up to where an insert would
// come.
func (s *Service) prepare(ctx context.Context, req Request) (groups []*group, unknown, refusal *Refusal) {
	if len(req.Targets) == 0 {
		return nil, nil, &Refusal{Code: verdict.CheckpointFailed, Object: "the call", Cause: "it names no machine", Next: "name the machine in the call"}
	}
	groups, unknown, refusal = s.resolve(ctx, req.Targets)
	if refusal == nil {
		refusal = s.inspectAll(ctx, req, groups)
	}
	return groups, unknown, refusal
}

// insertAll has a checkpoint taken of every group that hasn't one, all at once.
func (s *Service) insertAll(ctx context.Context, req Request, groups []*group) *Refusal {
	if ctx.Err() != nil {
		return ended(ctx, "the call", "looking up machine and VPG took all of its time")
	}
	inserts := make([]*insert, len(groups))
	for i, g := range groups {
		if !g.reused {
			inserts[i] = s.join(g, req.Call)
			defer s.leave(inserts[i])
		}
	}
	for i, g := range groups {
		in := inserts[i]
		if in == nil {
			continue
		}
		if refusal := in.wait(ctx, g); refusal != nil {
			return refusal
		}
		g.tag, g.checkpoint = in.tag, in.checkpoint
		s.memory.put(req, g, in.sealed)
	}
	return nil
}

// outcome is what there is for the machines that Zerto knows, beside what it says
// of one that it doesn't.
func outcome(groups []*group, unknown *Refusal) ([]wire.CheckpointInfo, error) {
	if unknown != nil {
		return describe(groups), unknown
	}
	return describe(groups), nil
}

// describe lists what was confirmed, in the order of machines and VPGs.
func describe(groups []*group) []wire.CheckpointInfo {
	var infos []wire.CheckpointInfo
	for _, g := range groups {
		for _, vm := range g.machines {
			infos = append(infos, wire.CheckpointInfo{
				VM: vm.Name, VPG: g.name, VPGID: g.id, Tag: g.tag,
				ID: g.checkpoint.ID, Time: g.checkpoint.Time, Reused: g.reused,
			})
		}
	}
	slices.SortStableFunc(infos, func(a, b wire.CheckpointInfo) int {
		return cmp.Or(cmp.Compare(a.VM, b.VM), cmp.Compare(a.VPG, b.VPG))
	})
	return infos
}

// Forget drops what may be reused in a session. It waits for nothing.
func (s *Service) Forget(session string) { s.memory.forget(session) }

// Close gives up on everything in flight and waits for its end.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.work.Wait()
}
