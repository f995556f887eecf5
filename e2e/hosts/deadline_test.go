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
	for _, name := range []string{"codex", "pi"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clients[name]
			g, sim := newProtected(t, short)
			c.as(g)
			must(t, sim.Set("*", zvmsim.Faults{Insert: zvmsim.InsertStuck}))
			pid, mark := 0, c.runs(g, "touch "+g.Marker)
			c.steps(g, between(g.approve, mark), between(func() {
				pid = g.brokerPID()
				must(t, syscall.Kill(pid, syscall.SIGSTOP))
			}, mark), between(func() { must(t, syscall.Kill(pid, syscall.SIGCONT)) }, fakemodel.Say("done")))
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
	g.ok(g.launchAs("--", "exec", "--skip-git-repo-check", "go"))
	if got := g.results(); len(got) != 1 || strings.Contains(got[0], "guard: ") || !strings.Contains(got[0], "Read-only file system") {
		t.Errorf("the model was told %q", got)
	}
	if _, err := os.Lstat(inside); err == nil {
		t.Error("a pass has widened what the client allows")
	}
}
