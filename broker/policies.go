package broker

import (
	"cmp"
	"context"
	"strings"

	"leaseguard.internal/broker/policy"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// policies asks the policies that a call meets: hooks first, then the server.
// final says that they deny it; nothing else that they say changes a verdict.
func (b *Broker) policies(ctx context.Context, c *call) (v verdict.Verdict, final bool) {
	if b.hooks == nil && c.set.server == nil {
		return verdict.Verdict{}, false
	}
	q := c.question()
	if b.hooks != nil {
		if v, final = b.hookRows(ctx, c, q); final {
			return v, true
		}
	}
	if c.set.server != nil {
		return b.askServer(ctx, c, q)
	}
	return verdict.Verdict{}, false
}

// question is what policies are told of the call.
func (c *call) question() policy.Call {
	s, ev := c.session, c.event
	ev.Model = cmp.Or(ev.Model, s.Model())
	return policy.Call{
		Session: s.ID, Generation: s.Generation, UID: s.UID, Runtime: s.Runtime, Dir: s.Dir,
		Host: c.host, Own: c.own, Mutator: c.class == classMutator, Event: ev,
	}
}

// serverRow takes in what the policy server thinks.
func (c *call) serverRow(o policy.Opinion) (verdict.Verdict, bool) {
	if o.Result != nil {
		c.policies = append(c.policies, *o.Result)
	}
	if !o.Denied {
		return verdict.Verdict{}, false
	}
	code := verdict.PolicyUnavailable
	if o.Code == verdict.PolicyDenied {
		code = o.Code
	}
	return refuse(code, "judging", verdict.Object(cmp.Or(c.event.Tool, c.event.Name)), o.Cause, o.Next), true
}

// hookRows are the rows of policy hooks: what is met can't be known, isn't
// trusted, or denies.
func (b *Broker) hookRows(ctx context.Context, c *call, q policy.Call) (verdict.Verdict, bool) {
	met, fault := b.hooks.Meet(q)
	if fault != nil && q.Mutator {
		return refuse(verdict.PolicyUnavailable, "reading the policy hooks for", verdict.Object(c.event.Tool), fault.Error(), "correct it, then launch the session again; guard hooks list"), true
	}
	var run []policy.Met
	var against []string
	for _, m := range met {
		if m.Trusted {
			run = append(run, m)
			continue
		}
		if why, denied := c.untrusted(m, m.Why); denied {
			against = append(against, why)
		}
	}
	if len(against) > 0 {
		return c.notTrusted(against), true
	}
	if len(run) == 0 {
		return verdict.Verdict{}, false
	}
	results, v := b.runHooks(ctx, c, run)
	if results == nil {
		return v, true
	}
	return c.merge(run, results)
}

// untrusted records a hook that may not run, and says whether that denies.
func (c *call) untrusted(m policy.Met, why string) (cause string, denied bool) {
	r := hookRecord(m, audit.PolicyPasses)
	r.Status, r.Exit = statusSkipped, -1
	if denied = m.Missed || c.set.config.Hooks.Untrusted != "skip"; denied {
		r.Decision = audit.PolicyDenies
	}
	c.policies = append(c.policies, r)
	if why != "" {
		why = ": " + why
	}
	return "hook " + verdict.Object(m.Run.ID) + " of the " + m.Source + "'s is not trusted" + why, denied
}

// statusSkipped is the record's word for a hook that nobody trusted.
const statusSkipped = "skipped_untrusted"

func (c *call) notTrusted(against []string) verdict.Verdict {
	return refuse(verdict.PolicyUnavailable, "judging", verdict.Object(c.event.Tool), reasons(against), "guard hooks list, then as an operator: guard hooks trust ID")
}

func hookRecord(m policy.Met, decision string) audit.PolicyResult {
	return audit.PolicyResult{Kind: audit.PolicyHook, ID: m.Run.ID, Source: m.Source, Hash: m.Hash, Matcher: m.Matcher, Decision: decision}
}

// merge makes one verdict of what became of the hooks: any denial wins, and no
// pass undoes one. Reasons stand in the order of the definitions. A hook that runs
// something else than what was trusted denies, whatever is made of those that
// nobody has trusted: or who may write its file could switch it off.
func (c *call) merge(met []policy.Met, results []wire.HookResult) (verdict.Verdict, bool) {
	var denials, failures []string
	for i, r := range results {
		m := met[i]
		name := "hook " + verdict.Object(m.Run.ID)
		record := hookRecord(m, audit.PolicyPasses)
		record.Status, record.Exit, record.Signal, record.DurationUS = string(r.Status), r.Exit, r.Signal, r.DurationUS
		against := true
		switch {
		case r.Status == wire.HookAllowed:
			against = false
		case r.Status == wire.HookChanged:
			failures = append(failures, name+": what it would run has changed since it was trusted; guard hooks trust shows how")
		case r.Status == wire.HookDenied:
			denials = append(denials, name+": "+r.Reason)
		case r.Status == wire.HookFailed && m.Allows:
			against = false
		default:
			failures = append(failures, name+" failed: "+r.Reason)
		}
		if against {
			record.Decision = audit.PolicyDenies
		}
		c.policies = append(c.policies, record)
	}
	tool := verdict.Object(c.event.Tool)
	switch {
	case len(denials) > 0:
		return refuse(verdict.PolicyDenied, "judging", tool, reasons(denials), "do it in a way that the policy allows; guard hooks list shows the hooks"), true
	case len(failures) > 0:
		return refuse(verdict.PolicyUnavailable, "judging", tool, reasons(failures), "repair the hook; guard hooks test ID shows what it does"), true
	}
	return verdict.Verdict{}, false
}

// reasons joins several, each cut so that all have room.
func reasons(all []string) string {
	const room = 720 // of verdict.MaxReason, for all
	cut := make([]string, len(all))
	for i, r := range all {
		cut[i] = verdict.Cut(verdict.Clean(r), max(room/len(all), 60))
	}
	return strings.Join(cut, "; ")
}
