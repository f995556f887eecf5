package broker

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/broker/session"
	"leaseguard.internal/gate/dialect"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/verdict"
)

// Alarms: a call that ran, held against what was answered before it ran. Each
// revokes and locks promotion until an operator clears it.
const (
	alarmIgnored    = "verdict_ignored"          // it was denied, yet it ran
	alarmUngated    = "ungated_call"             // nobody asked before it ran
	alarmInput      = "input_changed"            // another input ran than the one judged
	alarmAskedLease = "asked_ran_without_lease"  // a person was asked, and the lease was gone when it ran
	noteUnmatched   = "post_unmatched"           // no answer is known, for an innocent reason
	noteEndedAfter  = "ended_after_lease"        // it passed, and ran on after its lease had ended
	noteCompleted   = "completed_in_host"        // the host, or a person in it, completed the input
	alarmSettings   = "managed_settings_changed" // they may have switched the gate off
	slack           = 2 * time.Second            // between a host's clock of a call and ours
)

// remember keeps the answer to a call, for the event after it ran.
func (b *Broker) remember(c *call, v verdict.Verdict) {
	if c.event.Kind != dialect.ToolCall || c.event.ToolUse == "" || !c.own {
		return
	}
	judged := session.Judged{Kind: v.Kind, Lowerings: c.lowerings, Mutator: c.class == classMutator}
	if v.Kind != verdict.Deny {
		judged.Text = input(c.event) // its digest can wait until the answer is out
	}
	c.session.Remember(c.key(), judged, c.began)
}

func (c *call) key() session.CallKey {
	return session.NewCallKey(c.event.HostSession, c.event.ToolUse)
}

// digest puts the digest of a remembered input in its place.
func (b *Broker) digest(c *call) {
	if c.event.Kind == dialect.ToolCall && c.event.ToolUse != "" && c.own {
		c.session.Digest(c.key(), canonical)
	}
}

// input is a tool's input as it came.
func input(ev dialect.Event) session.Input { return session.Input{Tool: ev.Tool, JSON: ev.Input} }

// canonical digests a tool and its input by their meaning: a host may write the
// same object with other blanks, or its keys in another order.
func canonical(in session.Input) [sha256.Size]byte {
	v := jsontext.Value(in.JSON).Clone()
	if err := v.Canonicalize(); err != nil {
		v = in.JSON
	}
	return sha256.Sum256(append([]byte(in.Tool+"\x00"), v...))
}

// ran holds a call that has run against its answer.
func (b *Broker) ran(c *call) {
	if !c.event.Ran() || c.event.ToolUse == "" || !c.own {
		return
	}
	judged, known, excused := c.session.Recall(c.key())
	if !known {
		b.ranUnknown(c, excused)
		return
	}
	if judged.Text.Tool != "" { // it was quicker than the digest
		judged.Input = canonical(judged.Text)
	}
	l := c.session.Lease(b.opt.Clock.Now())
	lost := judged.Mutator && (l.State() != lease.Verified || l.Lowerings() != judged.Lowerings)
	switch {
	case judged.Kind == verdict.Deny:
		b.alarm(c, alarmIgnored)
	case judged.Input != canonical(input(c.event)):
		if dialect.Completes(c.host, c.event.Tool) {
			b.note(c, noteCompleted)
			return
		}
		b.alarm(c, alarmInput)
	case judged.Kind == verdict.Ask && lost:
		b.alarm(c, alarmAskedLease)
	case lost:
		b.note(c, noteEndedAfter)
	}
}

// ranUnknown judges a call that nobody remembers to have asked: it may have
// asked an earlier broker, or in a payload that could not be read.
func (b *Broker) ranUnknown(c *call, excused bool) {
	began := b.opt.Clock.Now().Add(-time.Duration(c.event.RanMS)*time.Millisecond - slack)
	if excused || c.session.Restored && (c.event.RanMS == 0 || began < b.since) {
		b.note(c, noteUnmatched)
		return
	}
	b.alarm(c, alarmUngated)
}

// alarm takes the lease, locks promotion and says so.
func (b *Broker) alarm(c *call, what string) {
	first := c.session.Alarm() == ""
	c.session.Lock(what)
	l := b.down(c.session, lease.Lower{Cause: lease.Alarmed})
	r := b.leaseRecord(c.session, l, what, "tool "+verdict.Object(c.event.Tool))
	r.Event, r.Tool, r.ToolUse, r.HostSession, r.HookEvent = audit.EventAlarm, c.event.Tool, c.event.ToolUse, c.event.HostSession, c.event.Name
	if !first { // it is locked and stored already; a flood of them becomes counts
		b.recordOften(r)
		return
	}
	b.record(r)
	b.saveSession(c.session)
}

// settingsChanged locks a session whose administrator's settings changed: hosts
// put those in force whatever a hook answers, and they can switch hooks off, so
// that this may be the last that is heard of the session.
func (b *Broker) settingsChanged(c *call) {
	if c.event.Source == "policy_settings" && c.own {
		b.alarm(c, alarmSettings)
	}
}

// clearAlarm unlocks promotion: an operator has looked at the alarm.
func (b *Broker) clearAlarm(ctx context.Context, s *session.Session) {
	if s.Alarm() == "" {
		return
	}
	s.ClearAlarm()
	b.record(b.sessionEvent(s, "alarm_cleared", ""))
	if err := b.putSession(ctx, s); err != nil {
		b.opt.Log.Warn("storing that an alarm was cleared", "session", s.ID, "error", err) // it would only lock again after a restart
	}
}

// saveSession writes the lock down without waiting: it holds in memory already.
func (b *Broker) saveSession(s *session.Session) {
	b.spawn(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		if err := b.putSession(ctx, s); err != nil {
			b.opt.Log.Warn("storing an alarm", "session", s.ID, "error", err)
		}
	})
}

func (b *Broker) note(c *call, what string) {
	c.note = what
}
