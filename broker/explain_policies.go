package broker

import (
	"leaseguard.internal/broker/policy"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/hookfile"
	"leaseguard.internal/internal/wire"
)

// foreseenPolicies are the policies that the call would meet once its lease holds.
// None of them is asked: a hook would run, and a server would judge. For nobody's
// session they are those of every session; a session adds its project's.
func (b *Broker) foreseenPolicies(c *call) []wire.ForeseenPolicy {
	all := []wire.ForeseenPolicy{}
	if c.class == classRecover {
		return all
	}
	if b.hooks != nil && c.session != nil {
		met, fault := b.hooks.Meet(c.question())
		for _, m := range met {
			all = append(all, c.foreseenHook(m.Run.ID, m.Source, m.Trusted))
			if m.Missed {
				all[len(all)-1].Becomes = wire.PolicyDenies
			}
		}
		if fault != nil {
			all = append(all, wire.ForeseenPolicy{Kind: audit.PolicyHook, Becomes: wire.PolicyUnknown, Fault: fault.Error()})
		}
	}
	if b.definitions != nil && c.session == nil {
		all = append(all, c.everybodys(b.definitions.List(policy.Look{}))...)
	}
	if c.set.server != nil {
		all = append(all, wire.ForeseenPolicy{Kind: audit.PolicyServer, Becomes: wire.PolicyAsked})
	}
	return all
}

// everybodys are the policy hooks of the user's file that match.
func (c *call) everybodys(h wire.Hooks) (all []wire.ForeseenPolicy) {
	if h.User.Fault != "" {
		all = append(all, wire.ForeseenPolicy{Kind: audit.PolicyHook, Source: h.User.Identity, Becomes: wire.PolicyUnknown, Fault: h.User.Fault})
	}
	for _, d := range h.Definitions {
		match := hookfile.Definition{Matcher: d.Matcher}.Match(c.event.Tool)
		if match && d.Identity == hookfile.UserIdentity && d.Enabled && d.InFile && !d.Replaced {
			all = append(all, c.foreseenHook(d.ID, d.Source, d.Trust != nil))
		}
	}
	return all
}

func (c *call) foreseenHook(id, source string, trusted bool) wire.ForeseenPolicy {
	p := wire.ForeseenPolicy{Kind: audit.PolicyHook, ID: id, Source: source, Becomes: wire.PolicyDenies}
	switch {
	case trusted:
		p.Becomes = wire.PolicyAsked
	case c.set.config.Hooks.Untrusted == "skip":
		p.Becomes = wire.PolicySkipped
	}
	return p
}
