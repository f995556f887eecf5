package broker

import (
	"context"
	"fmt"
	"sync"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/broker/session"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/runtimes"
	proctree "leaseguard.internal/internal/tree"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// maxHunts is how many batches of trees are ended at the same time: a tree that
// resists holds up those of its batch for two seconds, and no others.
const maxHunts = 4

// endings are the trees that are being ended or are to be. Trees that wait are
// ended together, by the same looks at the machine's processes.
type endings struct {
	mu      sync.Mutex
	waiting map[*session.Session]*ending
	running map[*session.Session]*ending
	hunts   int
	kept    map[*session.Session][]*peer.Process // what was below an anchor at the last look
}

// ending is the end of one tree.
type ending struct {
	why       string
	lowerings uint64 // of the lease when it was asked for
	fence     session.Fence
	target    proctree.Target
	outcome   proctree.Outcome
	done      chan struct{}
}

func newEndings() *endings {
	return &endings{
		waiting: map[*session.Session]*ending{}, running: map[*session.Session]*ending{},
		kept: map[*session.Session][]*peer.Process{},
	}
}

// killsTools says whether what a session left running ends with its trust.
func (b *Broker) killsTools() bool {
	return b.settings().config.Session.OnRevoke == "kill_tools"
}

// fell is told when a session's trust ends, after its lease is down. It waits for
// nothing.
func (b *Broker) fell(s *session.Session, cause lease.Cause) {
	if b.killsTools() {
		b.endTree(s, cause.String())
	}
}

// endRestored ends what sessions of an earlier broker run: whether they were
// VERIFIED isn't stored anywhere, so they count as such.
func (b *Broker) endRestored() {
	for _, s := range b.sessions.All() {
		if s.Restored && s.Launched() {
			b.fell(s, lease.Restarted)
		}
	}
}

// endTree has the session's tree ended, in the background. An ending that was
// asked for since the lease was last lowered serves for this one too.
func (b *Broker) endTree(s *session.Session, why string) *ending {
	lowerings := s.Lease(b.opt.Clock.Now()).Lowerings()
	e := b.endings
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.running[s]; r != nil && r.lowerings == lowerings {
		return r
	}
	if w := e.waiting[s]; w != nil {
		w.lowerings = lowerings
		return w
	}
	end := &ending{why: why, lowerings: lowerings, fence: s.Fence(), done: make(chan struct{})}
	end.target = proctree.Target{Kept: e.kept[s], Cgroup: end.fence.Cgroup, Mercy: func(p *peer.Process) proctree.Mercy { return b.mercy(s, p) }}
	delete(e.kept, s)
	// An error leaves what was kept and the fence: the anchor has ended.
	end.target.Anchor, _ = s.Anchor.Dup()
	e.waiting[s] = end
	if e.hunts < maxHunts {
		e.hunts++
		b.spawn(b.hunt)
	}
	return end
}

// hunt ends the trees that wait until none does. A session has one hunter at a
// time.
func (b *Broker) hunt() {
	e := b.endings
	for {
		e.mu.Lock()
		var batch []*session.Session
		var targets []proctree.Target
		for s, end := range e.waiting {
			if e.running[s] == nil {
				batch, targets = append(batch, s), append(targets, end.target)
				e.running[s] = end
				delete(e.waiting, s)
			}
		}
		if len(batch) == 0 {
			e.hunts--
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
		// Not bound to the broker's end: what was begun is over in two seconds.
		for i, outcome := range proctree.End(context.Background(), targets...) {
			b.treeEnded(batch[i], outcome)
		}
	}
}

func (b *Broker) treeEnded(s *session.Session, outcome proctree.Outcome) {
	e := b.endings
	e.mu.Lock()
	end := e.running[s]
	delete(e.running, s)
	e.mu.Unlock()
	end.outcome = outcome
	_ = end.target.Anchor.Close()
	closeAll(end.target.Kept)
	text := fmt.Sprintf("killed %d, left %d, by %s, after: %s", outcome.Killed, outcome.Left, fenceName(end.fence), end.why)
	if outcome.Err != nil {
		text += "; the rest is unknown: " + outcome.Err.Error()
		b.opt.Log.Error("ending a session's processes", "session", s.ID, "error", outcome.Err)
	}
	b.record(b.sessionEvent(s, "tree_ended", text))
	close(end.done)
}

func fenceName(f session.Fence) string {
	if f.Cgroup.ID != 0 {
		return "cgroup"
	}
	return "sweep"
}

func closeAll(ps []*peer.Process) {
	for _, p := range ps {
		_ = p.Close()
	}
}

// mercy says whether a process of a session's tree is ended. While the session
// lives it can't do without the pinned recovery tool, with what that has started,
// the hooks of hosts that put a shell between, with what that starts to deny: such
// a host runs the tool whose hook was killed; and the callers of its own events,
// which start nothing: what is below a gate was there before it became one. Whoever runs the installed gate is about to
// become such a caller, or to hand its answer on. In exec sessions everybody may
// call, so that there the gate alone stays.
func (b *Broker) mercy(s *session.Session, p *peer.Process) proctree.Mercy {
	switch {
	case s.Gone():
		return proctree.None
	case s.Runtime != runtimes.Exec && (s.Recovers(p) || s.Hooks(p)):
		return proctree.Shelter
	case b.runners.has(p.ID()): // its hooks end, and it denies
		return proctree.Spare
	case s.Waits(p) && (s.Runtime != runtimes.Exec || b.runsGate(p)):
		return proctree.Spare
	case b.runsGate(p):
		return proctree.Later
	}
	return proctree.None
}

// runsGate says whether the process runs the installed gate. In system mode its
// group tells, since its program can't be read.
func (b *Broker) runsGate(p *peer.Process) bool {
	if b.opt.Paths.Mode == paths.System {
		gid, err := p.EGID()
		return err == nil && gid == b.opt.Paths.GateGID
	}
	return b.isGate(p)
}

// settledTree waits until nothing of the session is being ended any more: what
// runs under a new lease is not to be ended for the old one.
func (b *Broker) settledTree(ctx context.Context, s *session.Session) error {
	for {
		b.endings.mu.Lock()
		end := b.endings.running[s]
		if end == nil {
			end = b.endings.waiting[s]
		}
		b.endings.mu.Unlock()
		if end == nil {
			return nil
		}
		select {
		case <-end.done:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the end of what the session left running: %w", ctx.Err())
		}
	}
}

// endTrees ends the sessions' trees and tells the operator how that went.
func (b *Broker) endTrees(ctx context.Context, sessions []*session.Session, r *wire.Result) {
	ends := make([]*ending, 0, len(sessions))
	for _, s := range sessions {
		ends = append(ends, b.endTree(s, "guard revoke --kill"))
	}
	for i, s := range sessions {
		out := wire.Ended{Session: s.ID, Fence: fenceName(ends[i].fence), Left: -1}
		var err error
		select {
		case <-ends[i].done:
			out.Killed, err = ends[i].outcome.Killed, ends[i].outcome.Err
			if err == nil {
				out.Left = ends[i].outcome.Left
			}
		case <-ctx.Done():
			err = ctx.Err()
		}
		switch {
		case err != nil:
			r.Warnings = append(r.Warnings, "what session "+verdict.Object(s.ID)+" left running could not be ended: "+err.Error())
		case out.Left > 0:
			r.Warnings = append(r.Warnings, fmt.Sprintf("session %s: %d processes are left, since they are other users', wait for an answer, "+
				"recover the session or did not end in time; look for them below pid %d",
				verdict.Object(s.ID), out.Left, s.Anchor.PID()))
		}
		r.Ended = append(r.Ended, out)
	}
}

// keepTrees remembers what is below the anchors of VERIFIED sessions, since
// nobody can tell once an anchor has ended. A cgroup remembers by itself.
func (b *Broker) keepTrees(sessions []*session.Session) {
	var verified []*session.Session
	var targets []proctree.Target
	kill, now := b.killsTools(), b.opt.Clock.Now()
	for _, s := range sessions {
		if kill && s.Lease(now).State() == lease.Verified && s.Fence() == (session.Fence{}) && !s.Gone() {
			verified, targets = append(verified, s), append(targets, proctree.Target{Anchor: s.Anchor})
		}
	}
	var below [][]*peer.Process
	if len(targets) > 0 {
		var err error
		if below, err = proctree.Below(max(connections()/len(targets), minKept), targets...); err != nil {
			b.opt.Log.Warn("looking at what sessions have started", "error", err)
			return
		}
	}
	e := b.endings
	e.mu.Lock()
	old := e.kept
	e.kept = make(map[*session.Session][]*peer.Process, len(verified))
	for i, s := range verified {
		e.kept[s] = below[i]
	}
	e.mu.Unlock()
	for _, ps := range old {
		closeAll(ps)
	}
}

// minKept is how many processes of each session are kept at least.
const minKept = 16

// forget lets go of what was kept of a session that has ended.
func (e *endings) forget(s *session.Session) {
	e.mu.Lock()
	kept := e.kept[s]
	delete(e.kept, s)
	e.mu.Unlock()
	closeAll(kept)
}

func (e *endings) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ps := range e.kept {
		closeAll(ps)
	}
}
