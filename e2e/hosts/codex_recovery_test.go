//go:build hosts

package hosts

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestCodexRecovery: the agent gets its lease by itself, from nothing but what it
// was sent. The server of the recovery tool is Codex's own child in its own
// process session, where no tool of its is.
func TestCodexRecovery(t *testing.T) {
	t.Parallel()
	g, sim := newProtected(t, selfPromotion)
	g.ofCodex()
	g.write(filepath.Join(g.Project, "AGENTS.md"), "Think before you touch.\n")
	touch := input(t, "cmd", "touch "+g.Marker)
	acts := []act{
		{name: "early", tool: "exec_command", input: touch, want: "lease_unverified"},
		{name: "begin", input: `{}`, want: "ok: Verification of session"},
		{name: "pending", tool: "exec_command", input: touch, want: "lease_pending"},
		{name: "promote", want: "ok: Session "},
		{name: "bash", tool: "exec_command", input: touch, want: "ok: exited with code 0"},
		{name: "asks by itself", tool: "exec_command", input: input(t, "cmd", self+" play-recover"), want: "ok: exited with code 0"},
		{name: "bash again", tool: "exec_command", input: touch, want: "ok: exited with code 0"},
	}
	g.codexSteps("", planSelf(acts)...)
	g.ok(g.launchCodex())
	g.codexCame(acts)
	g.toldOf(sim, "bash", "app-01")
	if told := g.told("toolu_begin"); !strings.Contains(told, "Think before you touch.\n") || !g.marked() {
		t.Errorf("marked %v; the model was told %q", g.marked(), told)
	}
	if told := g.told("toolu_asks_by_itself"); strings.Count(told, "not_operator") != 3 {
		t.Errorf("a tool that asks the broker for a lease was told %q", told)
	}
	name := recoveryName.FindStringSubmatch(g.told("toolu_early"))
	if first := g.Model.Requests()[0]; name == nil || !first.Offers(name[1]) {
		t.Errorf("the first request doesn't offer %q", name)
	}
}
