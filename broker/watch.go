package broker

import (
	"context"
	"encoding/hex"
	"errors"
	"runtime/debug"
	"time"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/broker/session"
	"leaseguard.internal/broker/store"
	"leaseguard.internal/internal/clock"
)

// keepEnded is how long an ended session's id can be resumed.
const keepEnded = 7 * 24 * time.Hour

// watch ends each session whose anchor ends.
func (b *Broker) watch(ctx context.Context) {
	for ctx.Err() == nil {
		err := b.sessions.Watch(ctx, b.exited)
		if err != nil && ctx.Err() == nil {
			// Decisions look at the pidfd themselves; only tidying up waits.
			b.opt.Log.Error("watching anchors", "error", err)
			_ = clock.Sleep(ctx, sweepTime)
		}
	}
}

func (b *Broker) exited(s *session.Session) {
	if !s.End(b.opt.Clock.Now()) {
		return
	}
	b.forget(s)
	b.record(b.sessionEvent(s, "ended", "the anchor has exited"))
	b.over(b.sessionRecord(s), s.User())
	b.sessions.Remove(s)
	b.disown(s.ID, s.Generation)
	b.dropAnchor(s)
	b.endings.forget(s)
	s.Release()
}

// sweep tidies up: leases whose end has come, counted denials, old tokens. No
// decision depends on it.
func (b *Broker) sweep(ctx context.Context) {
	for n := 0; clock.Sleep(ctx, sweepTime) == nil; n++ {
		now := b.opt.Clock.Now()
		all := b.sessions.All()
		for _, s := range all {
			if l, effects, _ := s.Apply(lease.Tick{}, now); len(effects) > 0 { // Tick is legal in every state
				b.recordLease(s, l, "expired", l.Cause().String())
				b.forget(s)
			}
			b.seeDirectory(s)
			b.seeDeaf(s)
			b.seeLeader(s)
		}
		b.giveBack(len(all))
		b.refreshOwners()
		b.endUnproved(all, now)
		b.keepTrees(all)
		for _, r := range b.floods.Flush(now) {
			b.audit.Log(r)
		}
		if n%3600 == 0 || b.ended.crowd() {
			b.prune(ctx)
		}
	}
}

// giveBack returns memory to the system once most of many sessions have ended:
// by itself the runtime would do so in minutes, or never if nothing happens.
//
// Many sessions are kept with less room for garbage, at the price of time: ten
// thousand have to fit into 64 MiB.
func (b *Broker) giveBack(sessions int) {
	room := 100
	if sessions >= manySessions {
		room = 50
	}
	if room != b.room {
		b.room = room
		debug.SetGCPercent(room)
	}
	b.most = max(b.most, sessions)
	if b.most >= manySessions && sessions < b.most/4 {
		b.most = sessions
		debug.FreeOSMemory()
	}
}

// manySessions is from where on their memory is worth the time.
const manySessions = 256

func (b *Broker) prune(ctx context.Context) {
	wall := b.opt.Clock.Wall()
	if err := b.store.Prune(ctx, wall.Add(-24*time.Hour)); err != nil {
		b.opt.Log.Warn("pruning tokens", "error", err)
	}
	b.ended.expire(wall.Add(-keepEnded))
	if err := b.store.DeleteSessions(ctx, b.ended.over(func(id string) bool { return b.sessions.ByID(id) != nil })); err != nil {
		b.opt.Log.Warn("forgetting ended sessions", "error", err)
	}
}

// parted takes a session's authority because its host has taken down what asks
// the gate. The store follows by itself.
func (b *Broker) parted(s *session.Session) {
	b.forget(s)
	b.record(b.leaseRecord(s, s.Part(b.opt.Clock.Now()), "lowered", "until it greets again nothing is granted"))
	b.saveSession(s)
}

// noteGate remembers that this generation's gate was heard, on disk first:
// a promotion needs it. Only a greeting ends a wait for one.
func (b *Broker) noteGate(ctx context.Context, s *session.Session, greets bool) {
	if s.Lease(b.opt.Clock.Now()).GateSeen() || s.Waiting() && !greets {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, verbTime)
	defer cancel()
	defer s.Save()() // until it counts in memory too
	if s.Lease(b.opt.Clock.Now()).GateSeen() {
		return // another event was quicker
	}
	r := b.sessionRecord(s)
	r.GateSeen = true
	if err := b.store.PutSession(ctx, r); err != nil {
		b.opt.Log.Warn("storing that the gate was seen", "session", s.ID, "error", err)
		return
	}
	s.SeeGate(greets, b.opt.Clock.Now())
}

// restore brings back the sessions whose anchors still live, with no authority.
func (b *Broker) restore() error {
	records, err := b.store.Sessions()
	if err != nil {
		return err
	}
	projects, err := b.store.Projects()
	if err != nil {
		return err
	}
	defer b.disownOthers(projects)
	for _, r := range records {
		anchor, err := b.reopen(r)
		user := b.owners.Owner(r.UID)
		if err != nil {
			b.over(r, user)
			continue
		}
		privileged, err := anchor.Privileged()
		s := &session.Session{
			ID: r.ID, Generation: r.Generation, Runtime: r.Runtime, UID: r.UID, Dir: r.Dir, Command: r.Command,
			Anchor: anchor, Started: r.Started, Unenforced: privileged || err != nil, Restored: true, Server: r.Server, Fell: b.fell,
		}
		if user != r.UID {
			s.Owner = user
		}
		if b.settings().config.Lease.Promotion != "self" {
			s.Server = "" // the operator has taken recovery away since
		}
		s.Start(r.GateSeen, r.Launched)
		if r.Alarm != "" {
			s.Lock(r.Alarm)
		}
		project := projects[r.ID]
		if project.Generation != r.Generation {
			project = store.Project{} // of an older guard, which didn't ask
		}
		b.adopt(s, project)
		if err := b.sessions.Add(s); err != nil {
			b.opt.Log.Warn("restoring a session", "session", r.ID, "error", err)
			b.over(r, user)
			b.notify(b.opt.Manager.Forget(anchorName(r.ID, r.Generation)))
			_ = anchor.Close()
			continue
		}
		b.keepAnchor(s)
		if err := b.fence(s); err != nil {
			b.opt.Log.Debug("a restored session has no cgroup", "session", s.ID, "error", err)
		}
		b.record(b.sessionEvent(s, "restored", "the broker restarted; its lease is gone"))
	}
	b.notify(b.opt.Manager.Discard()) // what was kept of sessions that nobody knows
	return nil
}

var errOtherBoot = errors.New("the session belongs to another boot")

func hexOf(h lease.Hash) string { return hex.EncodeToString(h[:]) }
