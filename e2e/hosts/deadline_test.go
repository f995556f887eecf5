//go:build hosts

package hosts

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"leaseguard.internal/internal/fakemodel"
	"leaseguard.internal/internal/zvmsim"
)

// TestF2_CodexAndPi: what takes too long is denied before the client loses its
// patience, since Codex then runs the tool: a ZVM that never completes, a broker
// that hangs.
func TestF2_CodexAndPi(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		world  func(*testing.T, string) (*guarded, *zvmsim.Server)
		script func(*guarded, ...fakemodel.Step)
		mark   func(*guarded) fakemodel.Step
		launch func(*guarded) outcome
	}{
		{"codex", newCodexProtected, func(g *guarded, s ...fakemodel.Step) { g.codexSteps("", s...) },
			func(g *guarded) fakemodel.Step { return g.mark() }, func(g *guarded) outcome { return g.launchCodex() }},
		{"pi", newPiProtected, func(g *guarded, s ...fakemodel.Step) { g.piSteps(s...) },
			func(g *guarded) fakemodel.Step { return fakemodel.Use("bash", g.touch()) }, func(g *guarded) outcome { return g.launchPi() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g, sim := c.world(t, short)
			must(t, sim.Set("*", zvmsim.Faults{Insert: zvmsim.InsertStuck}))
			pid := 0
			c.script(g, between(g.approve, c.mark(g)), between(func() {
				pid = g.brokerPID()
				must(t, syscall.Kill(pid, syscall.SIGSTOP))
			}, c.mark(g)), between(func() { must(t, syscall.Kill(pid, syscall.SIGCONT)) }, fakemodel.Say("done")))
			g.ok(c.launch(g))
			got := g.results()
			if len(got) != 2 || !strings.Contains(got[0], "checkpoint_timeout") || !strings.Contains(got[1], "deadline") || g.marked() {
				t.Errorf("the model was told %q; marked %v", got, g.marked())
			}
		})
	}
}

// TestT6_CodexPassIsNoAllow: a call that guard passes is still in the sandbox that
// its user has Codex use.
func TestT6_CodexPassIsNoAllow(t *testing.T) {
	t.Parallel()
	g := newCodex(t, "")
	inside := filepath.Join(g.Project, "written")
	g.codexSteps("sandbox_mode = \"read-only\"\n", between(g.approve, g.shell("touch "+inside)))
	g.ok(g.launchCodexAs("--", "exec", "--skip-git-repo-check", "go"))
	if got := g.results(); len(got) != 1 || strings.Contains(got[0], "guard: ") || !strings.Contains(got[0], "Read-only file system") {
		t.Errorf("the model was told %q", got)
	}
	if _, err := os.Lstat(inside); err == nil {
		t.Error("a pass has widened what the client allows")
	}
}
