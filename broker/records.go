package broker

import (
	"strconv"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/broker/session"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// record writes what grants nothing: it is on disk within 100 ms.
func (b *Broker) record(r audit.Record) {
	b.audit.Log(b.stamped(r))
}

// recordOften writes what a peer can bring about as often as it likes: a flood of
// it becomes counts.
func (b *Broker) recordOften(r audit.Record) {
	for _, out := range b.floods.Add(b.stamped(r), b.opt.Clock.Now()) {
		b.audit.Log(out)
	}
}

// recordCall does so for the outcome of a call. One that only counts with others
// needs no digest of its input.
func (b *Broker) recordCall(r audit.Record, input []byte) {
	for _, out := range b.floods.Add(b.stamped(r), b.opt.Clock.Now()) {
		if out.Count == 0 { // it stands for itself alone: it is r
			out.InputSHA256 = b.inputDigest(input)
		}
		b.audit.Log(out)
	}
}

func (b *Broker) stamped(r audit.Record) audit.Record {
	r.BootID, r.Epoch = b.bootID, b.epoch
	return r
}

// outcome counts a call for status and gathers its record.
func (b *Broker) outcome(c *call, v verdict.Verdict) audit.Record {
	b.count(c, v)
	return c.record(b, v)
}

func (b *Broker) count(c *call, v verdict.Verdict) {
	if c.session == nil || c.role == wire.RoleObserve {
		return
	}
	var denial *wire.Denial
	if v.Kind == verdict.Deny {
		denial = &wire.Denial{Tool: verdict.Cut(verdict.Clean(c.event.Tool), 200), Code: string(v.Code), Time: b.opt.Clock.Wall()}
	}
	var last *wire.CheckpointInfo
	if v.Kind == verdict.Pass && len(c.checkpoints) > 0 {
		info := c.checkpoints[len(c.checkpoints)-1]
		last = &info
	}
	c.session.Count(denial, last)
}

// record gathers all that a decision knew.
func (c *call) record(b *Broker, v verdict.Verdict) audit.Record {
	now := b.opt.Clock.Now()
	r := audit.Record{
		Event: audit.EventVerdict, CallerPID: c.peer.PID(), HostSession: c.event.HostSession,
		Agent: c.event.Agent, AgentType: c.event.AgentType, ToolUse: c.event.ToolUse, HookEvent: c.event.Name,
		Tool: c.event.Tool, Class: c.class, Verdict: v.Kind.String(), Code: string(v.Code), Reason: v.Reason,
		Targets: c.targets, Checkpoint: c.checkpoints, Policies: c.policies,
		DurationUS: now.Sub(c.began).Microseconds(),
	}
	if c.role == wire.RoleObserve {
		r.Event, r.Verdict = audit.EventHost, "" // nothing was asked
		if c.note != "" {
			r.Code = c.note
		}
	}
	if c.gate {
		r.CallerExe = b.gate
	} else if exe, err := c.peer.Process().Exe(); err == nil {
		r.CallerExe = exe
	}
	if s := c.session; s != nil {
		l := s.Lease(now)
		r.Session, r.Generation, r.Runtime = s.ID, s.Generation, s.Runtime
		r.Cycle, r.State = l.Cycle(), l.State().String()
	}
	return r
}

func (b *Broker) leaseRecord(s *session.Session, l lease.Lease, code, why string) audit.Record {
	return b.stamped(audit.Record{
		Event: audit.EventLease, Session: s.ID, Generation: s.Generation, Runtime: s.Runtime,
		Cycle: l.Cycle(), State: l.State().String(), Code: code, Reason: why,
	})
}

func (b *Broker) recordLease(s *session.Session, l lease.Lease, code, why string) {
	b.record(b.leaseRecord(s, l, code, why))
}

func (b *Broker) sessionEvent(s *session.Session, code, why string) audit.Record {
	l := s.Lease(b.opt.Clock.Now())
	return audit.Record{
		Event: audit.EventSession, Session: s.ID, Generation: s.Generation, Runtime: s.Runtime, State: l.State().String(),
		Code: code, Reason: why, CallerPID: s.Anchor.PID(),
	}
}

// describe is what the model is told of the checkpoints behind a pass.
func describe(infos []wire.CheckpointInfo) string {
	text := "guard: this call is protected."
	for _, i := range infos {
		text += " VM " + verdict.Object(i.VM) + " in VPG " + verdict.Object(i.VPG) + ": checkpoint " + i.ID +
			", tag " + verdict.Object(i.Tag) + ", taken " + i.Time.UTC().Format("2006-01-02T15:04:05Z") + "."
	}
	return verdict.Cut(text, 4*verdict.MaxReason)
}

func itoa(n int) string { return strconv.Itoa(n) }
