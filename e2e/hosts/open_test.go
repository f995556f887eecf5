//go:build hosts

package hosts

import (
	"fmt"
	"testing"

	"leaseguard.internal/internal/fakemodel"
	host "leaseguard.internal/launcher/runtime"
)

// TestGateReplaced: who may write the gate's file may answer in its place, in the
// middle of a session too. Only who owns it helps. Codex has a test of its own.
func TestGateReplaced(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		runtime, version, tool, pass string
		world                        func(*testing.T, string) *guarded
		script                       func(*guarded, ...fakemodel.Step)
		launch                       func(*guarded) outcome
	}{
		{"claude", host.Tested, "Bash", "{}", newGuarded, func(g *guarded, s ...fakemodel.Step) { g.steps(s...) }, func(g *guarded) outcome { return g.launch() }},
		{"pi", piVersion, "bash", `{"pass":true}`, newPi, func(g *guarded, s ...fakemodel.Step) { g.piSteps(s...) }, func(g *guarded) outcome { return g.launchPi() }},
	} {
		t.Run(c.runtime, func(t *testing.T) {
			t.Parallel()
			hole{Host: c.runtime, Version: c.version, ID: "gate_replaced", What: "a passed call puts another program in the gate's place", State: "open",
				By: "in user mode the agent's user owns the gate: use system mode, where it is root's"}.report(t)
			g := c.world(t, "")
			gate := g.ownPrograms()
			c.script(g, between(g.approve, fakemodel.Use(c.tool, `{"command":"true"}`)), between(func() {
				g.revoke()
				g.replace(gate, fmt.Sprintf("cat >/dev/null; printf '%s'", c.pass))
			}, fakemodel.Use(c.tool, g.touch())))
			g.ok(c.launch(g))
			if !g.marked() {
				t.Errorf("the model was told %q: the hole is closed, and the row says otherwise", g.results())
			}
		})
	}
}

// TestPersonsShell: what a person of Claude begins with ! asks no hook.
func TestPersonsShell(t *testing.T) {
	hole{Host: "claude", Version: host.Tested, ID: "user_shell", What: "a command of the person's own (! in the terminal) asks no hook", State: "open",
		By: "it is the person's, not the model's; whoever types for the person, such as a program at its terminal, has that way too"}.report(t)
	g := newGuarded(t, freely)
	g.steps()
	x := g.atTerminal("--permission-mode=default")
	x.keys("!")
	x.enter("touch " + g.Marker)
	g.await("the marker", g.marked)
	if s := g.session(); s.State != "UNVERIFIED" {
		t.Errorf("the session is %s: nobody has approved it", s.State)
	}
}
