//go:build hosts

package hosts

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/policysim"
)

// newJudged starts a policy server with these policies, and returns the
// configuration that names it.
func newJudged(t *testing.T, policies ...policysim.Policy) (sim *policysim.Server, config string) {
	t.Helper()
	sim = &policysim.Server{Policies: policies}
	must(t, sim.Start())
	t.Cleanup(sim.Close)
	return sim, fmt.Sprintf("[checkpoint]\nself = \"none\"\n[policy_server]\nurl = %q\n", sim.URL())
}

// holding is a policy that denies what holds a text, in one phase.
func holding(text, reason, phase string) policysim.Policy {
	return policysim.Policy{Name: reason, Judge: func(in string, event jsontext.Value) policysim.Verdict {
		if in == phase && strings.Contains(string(event), text) {
			return policysim.Verdict{Result: policysim.Deny, Reason: reason}
		}
		return policysim.Verdict{}
	}}
}

// TestPolicyServerOnHosts: on each host the server judges calls and results, and
// prompts where there is an event for them; what it has against a call, the model
// is told, and what it has against a result too.
func TestPolicyServerOnHosts(t *testing.T) {
	t.Parallel()
	for name, c := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim, config := newJudged(t, holding("forbidden", "not that command", "PHASE_TOOL_CALL"), holding("SECRET-42", "that was secret", "PHASE_TOOL_RESULT"))
			g := c.world(t, config)
			acts := []act{
				{name: "denied", tool: c.tool, input: input(t, c.key, "touch "+g.Marker+" # forbidden"), want: "policy_denied", before: g.approve},
				{name: "secret", tool: c.tool, input: input(t, c.key, "echo SECRET-$((40+2))"), want: "ok: "},
				{name: "plain", tool: c.tool, input: input(t, c.key, "echo plain"), want: "ok: "},
			}
			c.steps(g, plan(acts)...)
			g.ok(c.launch(g))
			c.came(g, acts)
			if g.marked() || len(g.alarms()) != 0 {
				t.Errorf("marked %v, alarms %q", g.marked(), g.alarms())
			}
			for name, want := range map[string]bool{"secret": true, "plain": false} {
				found := false
				for _, req := range g.Model.Requests() {
					if last, err := req.Last(); err == nil && last.ID == (probe{name: name}).id() {
						found = true
						if said := answered(req); strings.Contains(said, "[Policy violation]") != want || want && !strings.Contains(said, "that was secret") {
							t.Errorf("%s: the model was told %q", name, said)
						}
					}
				}
				if !found {
					t.Errorf("no request follows %s", name)
				}
			}
			prompted := false
			for _, e := range sim.Seen() {
				prompted = prompted || e.Phase == "PHASE_REQUEST" && strings.Contains(string(e.Event), `"text":"go"`)
			}
			if prompted != (name != "pi") {
				t.Errorf("the server was asked about the prompt: %v", prompted)
			}
		})
	}
}

// TestPolicyServerDeniesPrompts: a prompt that is denied, or that nobody can
// judge, reaches no model.
func TestPolicyServerDeniesPrompts(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"claude", "codex"} {
		for how, judged := range map[string]bool{"denied": true, "unavailable": false} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				sim, config := newJudged(t, policysim.Always("p", policysim.Deny, "no prompts today", "PHASE_REQUEST"))
				if !judged {
					for range 4 {
						sim.Fail(policysim.Page(200))
					}
				}
				c := clients[name]
				g := c.world(t, config)
				c.steps(g, c.runs(g, "touch "+g.Marker))
				out := c.launch(g)
				if n := g.Model.Count(); n != 0 || g.marked() {
					t.Errorf("the model was asked %d times, marked %v; exit %d\n%s\n%s", n, g.marked(), out.Exit, out.Stdout, out.Stderr)
				}
				if len(sim.Seen()) == 0 {
					t.Error("the server wasn't asked")
				}
			})
		}
	}
}
