package audit

import (
	"fmt"
	"strings"
	"testing"
)

// TestW14_PoliciesFitALine: as many results as there can be, with the longest
// names of the worst characters, fit one line, and none that denies is counted
// away before one that passes.
func TestW14_PoliciesFitALine(t *testing.T) {
	worst := strings.Repeat("\u200b", 5000)
	var all []PolicyResult
	for i := range 512 {
		r := PolicyResult{Kind: PolicyHook, ID: worst, Source: "project", Hash: worst, Matcher: worst, Signal: worst, Status: "allowed", Decision: PolicyPasses}
		switch {
		case i >= 500:
			r.Status, r.Decision = "denied", PolicyDenies
		case i%3 == 0:
			r.Status = "failed"
		}
		all = append(all, r)
	}
	targets := make([]string, 8)
	for i := range targets {
		targets[i] = worst
	}
	b, err := encode(Record{Reason: worst, Tool: worst, Targets: targets, Policies: all})
	if err != nil {
		t.Fatal(err)
	}
	r, err := DecodeRecord([]byte(fmt.Sprintf(`{"seq":1,"prev":%q,`, zeroHash) + string(b)))
	if err != nil {
		t.Fatal(err)
	}
	denied, counted := 0, 0
	for i, p := range r.Policies {
		counted += max(1, p.Count)
		if p.Decision == PolicyDenies && p.Count == 0 && i < 12 {
			denied++
		}
	}
	if denied != 12 || counted != 512 {
		t.Errorf("%d denials stand first, %d results are accounted for", denied, counted)
	}
	if all[0].Decision != PolicyPasses || len(all) != 512 {
		t.Error("the caller's list was changed")
	}
}

// A line that an earlier version wrote is read as before.
func TestEarlierPolicyField(t *testing.T) {
	b, err := encode(Record{Tool: "Bash"})
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Replace(fmt.Sprintf(`{"seq":1,"prev":%q,`, zeroHash)+string(b), `"policies":[]`, `"policy":[]`, 1)
	if r, err := DecodeRecord([]byte(line)); err != nil || r.Tool != "Bash" || !strings.Contains(line, `"policy":[]`) {
		t.Errorf("%+v, %v", r, err)
	}
}
