//go:build hosts

package hosts

import (
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/fakemodel"
)

// diagnosed is what is read of guard doctor --json.
type diagnosed struct {
	Checks []struct {
		Area, State, Text, Fix string
	} `json:"checks"`
	Runtimes []struct {
		Runtime, Path, Version string
		Launch                 bool
		Proved                 *bool
		Effect                 []string
		Holes                  []struct{ ID, State, By string }
	} `json:"runtimes"`
}

// doctor examines the machine with the environment that launches have.
func (g *guarded) doctor() (d diagnosed) {
	g.t.Helper()
	out := g.as(filepath.Join(g.bin, "guard"), "doctor", "--json")
	if err := json.Unmarshal([]byte(out.Stdout), &d, json.MatchCaseInsensitiveNames(true)); err != nil || out.Exit == 3 {
		g.t.Fatalf("guard doctor ended with %d, %v: %s", out.Exit, err, out.Stderr)
	}
	return d
}

// TestDoctorKnowsTheProof: doctor finds the client that a launch takes, and knows
// its proof once there is one, without a session of its own.
func TestDoctorKnowsTheProof(t *testing.T) {
	t.Parallel()
	for name, c := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := c.world(t, "")
			if out := g.guard("broker", "start"); out.Exit != 0 {
				t.Fatal(out.Stderr)
			}
			if name == "claude" {
				// Where it stands in the client's own state, its first run moves it.
				g.write(filepath.Join(g.Home, ".claude/settings.json"), object{"skipDangerousModePermissionPrompt": true})
			}
			c.steps(g, fakemodel.Say("done"))
			for _, proved := range []bool{false, true} {
				if proved {
					g.ok(c.launch(g))
				}
				found := false
				for _, r := range g.doctor().Runtimes {
					if r.Runtime != name {
						continue
					}
					found = true
					if r.Version != versions[name] || !r.Launch || r.Proved == nil || *r.Proved != proved || len(r.Effect) == 0 {
						t.Errorf("want proved %v, and all the rest well: %+v (proved %v)", proved, r, r.Proved != nil && *r.Proved)
					}
				}
				if !found {
					t.Error("doctor doesn't find the client")
				}
			}
			if n := len(g.sessions()); n != 0 {
				t.Errorf("%d sessions are left", n)
			}
		})
	}
}
