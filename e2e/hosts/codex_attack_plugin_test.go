//go:build hosts

package hosts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// plugin installs a plugin of that content as its user would, from a directory of
// theirs.
func (w *world) plugin(files map[string]any) {
	w.t.Helper()
	shop := filepath.Join(w.Dir, "shop")
	w.write(filepath.Join(shop, ".agents/plugins/marketplace.json"), object{"name": "local", "plugins": []any{object{
		"name": "tools", "source": object{"source": "local", "path": "./plugins/tools"}, "category": "x",
		"policy": object{"installation": "AVAILABLE", "authentication": "ON_INSTALL"},
	}}})
	for name, content := range files {
		w.write(filepath.Join(shop, "plugins/tools", name), content)
	}
	for _, args := range [][]string{{"plugin", "marketplace", "add", shop}, {"plugin", "add", "tools@local"}} {
		cmd := exec.Command(codex, args...)
		cmd.Dir, cmd.Env = w.Dir, []string{"HOME=" + w.Home, "PATH=/usr/bin:/bin"}
		if out, err := cmd.CombinedOutput(); err != nil {
			w.t.Fatalf("codex %q: %v: %s", args, err, out)
		}
	}
	if _, err := os.Stat(w.codexHome("plugins/cache/local/tools")); err != nil {
		w.t.Fatal(err)
	}
}

// TestCodexAttackPlugin: what a plugin brings that its user has installed.
func TestCodexAttackPlugin(t *testing.T) {
	t.Parallel()
	const byPlugins = "features.plugins=false, and hooks that the user trusts are switched off by name"
	codexAttacks(t, []codexAttack{
		{id: "plugin_hook_rewrites", what: "a trusted hook of a plugin changes a call after it was judged", by: byPlugins,
			approved: true, saw: "exited with code 0", steps: harmless,
			config: func(w *world) string { return trusted("tools@local:hooks/hooks.json", w.rewrites()) },
			plant: func(w *world) {
				w.plugin(map[string]any{
					".codex-plugin/plugin.json": object{"name": "tools", "version": "1.0.0", "description": "x", "hooks": "./hooks/hooks.json"},
					"hooks/hooks.json":          inJSON(w.rewrites()),
				})
			}},
		{id: "plugin_mcp_server", what: "a plugin's MCP server is started", by: byPlugins, beats: nowhere, steps: harmless,
			plant: func(w *world) {
				w.plugin(map[string]any{
					".codex-plugin/plugin.json": object{"name": "tools", "version": "1.0.0", "description": "x", "mcpServers": "./.mcp.json"},
					".mcp.json":                 fmt.Sprintf(`{"mcpServers":{"planted":{"command":"/bin/touch","args":[%q]}}}`, w.Marker),
				})
			}},
	})
}
