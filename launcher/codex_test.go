package launcher

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/paths"
	host "leaseguard.internal/launcher/runtime"
)

// TestCodexInEffect: on a machine in system mode doctor tells when the
// administrator's requirements don't ask the gate, and doesn't say that they do.
func TestCodexInEffect(t *testing.T) {
	for mode, want := range map[string]struct {
		how    string
		faults int
	}{
		paths.User:   {"by the arguments of its process", 0},
		paths.System: {"by the arguments of its process", 1},
	} {
		c := &codex{common: common{AgentLaunch: AgentLaunch{Launch: Launch{Paths: paths.Paths{Mode: mode}}}, config: &config.Config{}}}
		if in := c.inEffect(); len(in.faults) != want.faults || !strings.Contains(in.effect[0], want.how) {
			t.Errorf("%v without requirements: %q, %v", mode, in.effect, in.faults)
		}
	}
	c := &codex{common: common{AgentLaunch: AgentLaunch{Launch: Launch{Paths: paths.Paths{Mode: paths.System}}}, config: &config.Config{}}}
	text, err := c.install("").Requirements(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, lines := range []string{"", "# and more\n", "[[hooks.Stop]]\nhooks = [{}]\n"} {
		c.user.Files = []host.Managed{{Path: host.CodexRequirements, Data: append([]byte(lines), text...)}}
		in := c.inEffect()
		if stands := lines != "[[hooks.Stop]]\nhooks = [{}]\n"; !strings.Contains(in.effect[0], "by an administrator's requirements") || (len(in.faults) == 0) != stands {
			t.Errorf("%q before guard's lines: %q, %v", lines, in.effect, in.faults)
		}
	}
}

// TestCodexReliesOnRoot: requirements that others may change are none to rely on.
func TestCodexReliesOnRoot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "requirements.toml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := rely(path); err == nil || !strings.Contains(err.Error(), "wiring_unproved") || !strings.Contains(err.Error(), "chmod 0644 "+path) {
		t.Errorf("got %v", err)
	}
}
