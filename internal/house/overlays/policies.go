package main

// policies are promises of what policies can do, and what can be done to them. The
// quick ones are those whose loss lets a call pass; -all takes the rest.
var policies = []mutant{
	{
		name: "policy-reads-unasked", breaks: "reads meet policies too",
		file: "broker/decide.go", old: `			if denied, final := b.policies(ctx, c); final {`, new: `			if denied, final := b.policies(ctx, c); final && false {`,
		pkg: "./broker", test: "TestM39_PlaceOfPolicies",
	},
	{
		name: "policy-untrusted-skipped", breaks: "what nobody trusted denies unless the operator says skip",
		file: "broker/policies.go", old: `c.set.config.Hooks.Untrusted != "skip"; denied {`, new: `c.set.config.Hooks.Untrusted == ""; denied {`,
		pkg: "./broker", test: "TestM26_W12_Untrusted",
	},
	{
		name: "policy-failure-passes", breaks: "a hook's failure denies unless its definition says otherwise",
		file: "broker/policies.go", old: `		case r.Status == wire.HookFailed && m.Allows:`, new: `		case r.Status == wire.HookFailed:`,
		pkg: "./broker", test: "TestW1_M40_FailuresDeny",
	},
	{
		name: "policy-bytes-not-compared", breaks: "what runs is what was trusted",
		file: "internal/hookrun/pin.go", old: `		if err == nil && (sum == "" || want[n].SHA256 != sum) {`, new: `		if err == nil && sum == "" {`,
		pkg: "./internal/hookrun", test: "TestW6_WhatChangedDoesNotRun",
	},
	{
		name: "policy-any-result", breaks: "only ALLOW to the letter is no objection",
		file: "broker/policy/server_answer.go", old: `	if a.action == none {`, new: `	if a.action = max(a.action, allow); a.action == none {`,
		pkg: "./broker/policy", test: "TestX4_UnknownResultDenies",
	},
	{
		name: "policy-server-forgotten", breaks: "the broker asks the policy server from its start on",
		file: "broker/daemon.go", old: ` Policies: first.Policies,`, new: ``,
		pkg: "./e2e", test: "TestO13_O15_O16_X7_TheCredentialStaysInTheBroker", slow: true,
	},
	{
		name: "policy-output-cut", breaks: "output over the cap is a failure",
		file: "internal/hookrun/judge.go", old: `	case e.overflow:`, new: `	case e.overflow && e.held:`,
		pkg: "./internal/hookrun", test: "TestM32_W4_OutputOverTheCapIsAFailure", slow: true,
	},
	{
		name: "policy-left-behind", breaks: "nothing of a hook outlives it",
		file: "internal/hookrun/unit.go", old: `	if state == nil || reap() {`, new: `	if state == nil && reap() {`,
		pkg: "./internal/hookrun", test: "TestM33_W5_Grandchild", slow: true,
	},
	{
		name: "policy-hooks-start-agents", breaks: "what a hook starts gets no pass",
		file: "broker/decide.go", old: `	if b.runners.above(c.path) {`, new: `	if b.runners.above(c.path) && false {`,
		pkg: "./broker", test: "TestM30_W9_Recursion", slow: true,
	},
	{
		name: "policy-trust-everywhere", breaks: "trust in one project means nothing in another",
		file: "internal/hookfile/hash.go", old: `[]string{string(d.Source), identity, event,`, new: `[]string{string(d.Source), "", event,`,
		pkg: "./broker/policy", test: "TestM14_TrustHoldsForItsIdentityAlone", slow: true,
	},
	{
		name: "policy-revoked-later", breaks: "a revocation acts within the turn",
		file: "broker/policy/snapshot.go", old: `	case e.trust != nil && now.by[e.key] == e.trust:`, new: `	case e.trust != nil:`,
		pkg: "./broker/policy", test: "TestM21_OneSnapshotATurn", slow: true,
	},
	{
		name: "policy-one-file-for-both", breaks: "a project's fault leaves the user's hooks running",
		file: "broker/policy/snapshot.go", old: `	s.entries = entries(user, hookfile.UserIdentity, t)`, new: `	if file.fault == nil {
		s.entries = entries(user, hookfile.UserIdentity, t)
	}`,
		pkg: "./broker/policy", test: "TestW2_OneFileDoesntTakeTheOtherAway", slow: true,
	},
	{
		name: "policy-token-told", breaks: "a server can't have its token told to the agent",
		file: "broker/policy/server_token.go", old: `	return strings.ReplaceAll(said, t.value, "[token]")`, new: `	_ = strings.ReplaceAll
	return said`,
		pkg: "./broker/policy", test: "TestX7_TheTokenIsInNoReason", slow: true,
	},
	{
		name: "policy-other-data", breaks: "an ALLOW of something else is none",
		file: "broker/policy/server.go", old: `	case a.action == allow && (a.data == nil || q.same(a.data)):`, new: `	case a.action == allow && (a.data == nil || q.same(a.data) || true):`,
		pkg: "./broker/policy", test: "TestO31_ChangedDataDenies", slow: true,
	},
	{
		name: "catalog-believes-hints", breaks: "what a server says of its own tools opens nothing",
		file: "internal/catalogimport/draft.go", old: `		e := d.entry(match, catalog.Entry{Class: catalog.Mutating})`,
		new: `		class := catalog.Mutating
		if t.reads() {
			class = catalog.ReadOnly
		}
		e := d.entry(match, catalog.Entry{Class: class})`,
		pkg: "./internal/catalogimport", test: "TestHintsAreNoClass", slow: true,
	},
}
