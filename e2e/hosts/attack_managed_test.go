//go:build hosts

package hosts

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leaseguard.internal/internal/fakemodel"
)

// administer writes an administrator's file for one test, as managed does.
func administer(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("/etc/claude-code", name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		t.Skipf("this run has no /etc of its own, since it wasn't started by root: %v", err)
	}
	t.Cleanup(func() { must(t, os.Remove(path)) })
}

// TestAttackManaged: whatever an administrator's files do to the hooks, the
// launch either is proved or doesn't happen.
func TestAttackManaged(t *testing.T) {
	const dropin, main = "managed-settings.d/50-more.json", "managed-settings.json"
	for _, c := range []struct {
		name, file, text string
		words            []string // of the refusal; nil: the session runs, and is gated
	}{
		{"disableAllHooks in a drop-in", dropin, `{"disableAllHooks":true}`, []string{dropin + " has disableAllHooks = true"}},
		{"managed hooks only, in a drop-in", dropin, `{"allowManagedHooksOnly":true}`, []string{dropin + " has allowManagedHooksOnly = true"}},
		{"simple mode", main, `{"env":{"CLAUDE_CODE_SIMPLE":"1"}}`, []string{"without the gate's denial"}},
		{"shell prefix", main, `{"env":{"CLAUDE_CODE_SHELL_PREFIX":"/bin/true"}}`, nil},
		{"empty", main, "", nil},
		{"no servers allowed", main, `{"allowManagedMcpServersOnly":true,"allowedMcpServers":[]}`, nil},
		{"servers of its own", "managed-mcp.json", `{"mcpServers":{}}`, []string{"--strict-mcp-config"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			administer(t, c.file, c.text)
			g := newGuarded(t, "")
			g.steps(writes(g.world)...)
			o := g.launch()
			if c.words != nil {
				g.noSession(o, "wiring_unproved", c.words...)
				return
			}
			g.ok(o)
			if got := g.results(); g.marked() || len(got) != 1 || !strings.Contains(got[0], "guard: lease_unverified: ") || !g.heard("Write", "lease_unverified") {
				t.Errorf("marked %v, the model was told %q", g.marked(), got)
			}
		})
	}
}

// TestMeasureManagedInMidSession: the client takes over what an administrator
// changes under a running session, although the gate denies it. guard hears of
// the change, and then no more.
func TestMeasureManagedInMidSession(t *testing.T) {
	administer(t, "managed-settings.json", "{}")
	g := newGuarded(t, "")
	changed := func(context.Context, *fakemodel.Request) error {
		must(t, os.WriteFile("/etc/claude-code/managed-settings.json", []byte(`{"disableAllHooks":true}`), 0o644))
		g.await("the news of the change", func() bool { return len(g.changes()) > 0 })
		return nil
	}
	g.steps(fakemodel.Use("Bash", g.touch()), fakemodel.After(changed, fakemodel.Use("Bash", g.touch())))
	g.ok(g.launch())
	if got := g.results(); !g.marked() || len(got) != 2 || !strings.Contains(got[0], "guard: lease_unverified: ") || !strings.HasPrefix(got[1], "ok: ") {
		t.Errorf("marked %v, the model was told %q; want a denial, then none", g.marked(), got)
	}
}
