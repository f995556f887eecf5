package broker

import (
	"context"
	"strconv"
	"strings"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/sdunit"
	"leaseguard.internal/internal/verdict"
)

// mirror shows a record of the audit in the journal too, for people and their
// tools. It is told of each record that was written, and waits for nothing.
func (b *Broker) mirror(r audit.Record) {
	b.opt.Journal.Log(journalEntry(r))
}

// journalEntry is a record as a line of the journal. Its fields have the names of
// the audit's, with GUARD_ before them.
func journalEntry(r audit.Record) sdunit.Entry {
	e := sdunit.Entry{Priority: priority(r), Message: message(r)}
	add := func(name, value string) {
		if value != "" {
			e.Fields = append(e.Fields, "GUARD_"+name, value)
		}
	}
	number := func(name string, n uint64) {
		if n != 0 {
			add(name, strconv.FormatUint(n, 10))
		}
	}
	number("SEQ", r.Seq)
	add("EVENT", string(r.Event))
	add("EPOCH", r.Epoch)
	add("SESSION", r.Session)
	number("GENERATION", r.Generation)
	number("CYCLE", r.Cycle)
	add("STATE", r.State)
	add("RUNTIME", r.Runtime)
	number("CALLER_PID", uint64(max(r.CallerPID, 0))) // #nosec G115 -- not negative
	add("CALLER_EXE", r.CallerExe)
	add("HOST_SESSION", r.HostSession)
	add("AGENT", r.Agent)
	add("TOOL_USE", r.ToolUse)
	add("HOOK_EVENT", r.HookEvent)
	add("TOOL", r.Tool)
	add("CLASS", r.Class)
	add("VERDICT", r.Verdict)
	add("CODE", r.Code)
	add("REASON", r.Reason)
	add("TARGETS", strings.Join(r.Targets, "\n"))
	var checkpoints []string
	for _, c := range r.Checkpoint {
		checkpoints = append(checkpoints, c.ID+" "+c.Tag+" "+c.VM+" "+c.VPG)
	}
	add("CHECKPOINTS", strings.Join(checkpoints, "\n"))
	var policies []string
	for _, p := range r.Policies {
		policies = append(policies, p.Kind+" "+p.ID+" "+p.Hash+" "+p.Status+" "+p.Decision)
	}
	add("POLICIES", strings.Join(policies, "\n"))
	add("RECEIPT", r.Receipt)
	add("INPUT_SHA256", r.InputSHA256)
	number("DURATION_US", uint64(max(r.DurationUS, 0))) // #nosec G115 -- not negative
	number("COUNT", r.Count)
	return e
}

func priority(r audit.Record) int {
	switch {
	case r.Event == audit.EventAlarm:
		return sdunit.Alert
	case r.Code == "reload_failed", r.Code == audit.CodeDropped, r.Code == audit.CodeHeadError:
		return sdunit.Warning
	case r.Verdict == verdict.Deny.String(), r.Event == audit.EventLease:
		return sdunit.Notice
	}
	return sdunit.Info
}

// message is the line that people read. What a peer chose of it is quoted.
func message(r audit.Record) string {
	parts := []string{string(r.Event)}
	for _, p := range []struct{ name, value string }{
		{"", r.Verdict}, {"", r.Code}, {"session ", r.Session}, {"tool ", r.Tool}, {"", r.State},
	} {
		if p.value == "" {
			continue
		}
		if p.name == "tool " {
			p.value = verdict.Object(p.value)
		}
		parts = append(parts, p.name+p.value)
	}
	text := strings.Join(parts, " ")
	if r.Reason != "" {
		text += ": " + verdict.Clean(r.Reason)
	}
	return text
}

// listener hears of the audit's records, where there is a journal to show them.
func (b *Broker) listener() func(audit.Record) {
	if b.opt.Journal == nil {
		return nil
	}
	return b.mirror
}

// startJournal starts the journal, which outlives what it tells of. stop ends it.
func (b *Broker) startJournal() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.opt.Journal.Run(ctx)
	}()
	return func() { cancel(); <-done }
}
