package audit

import (
	"slices"

	"leaseguard.internal/internal/verdict"
)

// PolicyResult is what one policy made of a call. Nothing in it is of the call's
// input or of what a policy has written.
type PolicyResult struct {
	Kind       string `json:"kind"`    // hook or server
	ID         string `json:"id"`      // of a hook's definition
	Source     string `json:"source"`  // of it: user or project
	Hash       string `json:"hash"`    // of the definition, or the id of the evaluation
	Matcher    string `json:"matcher"` // that fitted
	Status     string `json:"status"`  // allowed, denied, failed, skipped_untrusted, aborted
	Exit       int    `json:"exit"`    // of a hook; HTTP status of a server; -1: none
	Signal     string `json:"signal"`  // that ended a hook
	DurationUS int64  `json:"duration_us"`
	Decision   string `json:"decision"` // what it meant for the call: pass or deny
	// Count is how many of equal status and decision it stands for; 0: itself
	// alone.
	Count int `json:"count"`
}

// Kinds of policies, and what they can mean for a call.
const (
	PolicyHook   = "hook"
	PolicyServer = "server"

	PolicyPasses = "pass"
	PolicyDenies = "deny"
)

// maxPolicies is how many results a line can hold with all else that it may. What
// is beyond is counted by status.
const (
	maxPolicies   = 48
	maxPolicyText = 96
)

// clipPolicies bounds the results. Those that deny go first where not all find room.
func clipPolicies(all []PolicyResult) []PolicyResult {
	all = slices.Clone(all)
	if len(all) > maxPolicies {
		slices.SortStableFunc(all, func(a, b PolicyResult) int { return rank(a) - rank(b) })
		rest := all[maxPolicies-8:] // room for one of each status and decision
		all = all[:maxPolicies-8]
		for _, r := range rest {
			all = fold(all, r)
		}
	}
	for i := range all {
		for _, s := range []*string{&all[i].Kind, &all[i].ID, &all[i].Source, &all[i].Hash, &all[i].Matcher, &all[i].Status, &all[i].Signal, &all[i].Decision} {
			*s = verdict.Clean(clipTo(*s, maxPolicyText))
		}
	}
	return all
}

func rank(r PolicyResult) int {
	if r.Decision == PolicyDenies {
		return 0
	}
	return 1
}

// fold counts r with those that are counted already.
func fold(all []PolicyResult, r PolicyResult) []PolicyResult {
	for i := range all {
		if c := &all[i]; c.Count > 0 && c.Status == r.Status && c.Decision == r.Decision {
			c.Count++
			return all
		}
	}
	return append(all, PolicyResult{Kind: r.Kind, Status: r.Status, Decision: r.Decision, Exit: -1, Count: 1})
}
