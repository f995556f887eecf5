//go:build hosts

package hosts

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestPiRecovery: in Pi too the agent gets its lease by itself, from nothing but
// what it was sent; and again after another session has taken the conversation,
// from the same process.
func TestPiRecovery(t *testing.T) {
	t.Parallel()
	g, sim := newProtected(t, selfPromotion)
	g.ofPi()
	g.write(filepath.Join(g.Project, "AGENTS.md"), "Think before you touch.\n")
	acts := []act{
		{name: "early", tool: "bash", input: g.touch(), want: "lease_unverified"},
		{name: "begin", input: `{}`, want: "ok: Verification of session"},
		{name: "pending", tool: "bash", input: g.touch(), want: "lease_pending"},
		{name: "promote", want: "ok: Session "},
		{name: "bash", tool: "bash", input: g.touch(), want: "ok: "},
	}
	again := []act{
		{name: "late", tool: "bash", input: g.touch(), want: "lease_revoked"},
		{name: "anew", input: `{}`, want: "ok: Verification of session"},
		{name: "raised", want: "ok: Session "},
		{name: "more", tool: "bash", input: g.touch(), want: "ok: "},
	}
	g.piSteps(append(planSelf(acts), planSelf(again)...)...)
	r := g.rpcGuarded()
	r.prompt("go")
	r.do("new_session", nil)
	r.prompt("go on")
	r.end()
	g.came(acts)
	g.came(again)
	g.toldOf(sim, "bash", "app-01")
	given := g.told("toolu_begin")
	if !strings.Contains(given, "Think before you touch.\n") || !g.marked() {
		t.Errorf("marked %v; the model was told %q", g.marked(), given)
	}
	name := recoveryName.FindStringSubmatch(g.told("toolu_early"))
	if first := g.Model.Requests()[0]; name == nil || !first.Offers(name[1]) {
		t.Errorf("the first request doesn't offer %q", name)
	}
	g.onlyTranscripts(recoveryToken.FindStringSubmatch(given))
	if alarms := g.alarms(); len(alarms) != 0 {
		t.Errorf("alarms: %q", alarms)
	}
}
