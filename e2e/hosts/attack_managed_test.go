//go:build hosts

package hosts

import (
	"os"
	"path/filepath"
	"testing"
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
		what             string   // the hole; "": it is none
	}{
		{"disableAllHooks in a drop-in", dropin, `{"disableAllHooks":true}`, []string{dropin + " has disableAllHooks = true"}, "disableAllHooks in an administrator's file switches every hook off"},
		{"managed hooks only, in a drop-in", dropin, `{"allowManagedHooksOnly":true}`, []string{dropin + " has allowManagedHooksOnly = true"}, "allowManagedHooksOnly in an administrator's file, without guard's hooks there, switches a session's off"},
		{"plugins' hooks only", dropin, `{"strictPluginOnlyCustomization":["hooks"]}`, []string{dropin + " has strictPluginOnlyCustomization for hooks"}, "strictPluginOnlyCustomization in an administrator's file switches every hook but theirs and plugins' off"},
		{"simple mode", main, `{"env":{"CLAUDE_CODE_SIMPLE":"1"}}`, []string{"without the gate's denial"}, "CLAUDE_CODE_SIMPLE in an administrator's env switches a session's hooks off"},
		{"shell prefix", main, `{"env":{"CLAUDE_CODE_SHELL_PREFIX":"/bin/true"}}`, nil, ""},
		{"empty", main, "", nil, ""},
		{"no servers allowed", main, `{"allowManagedMcpServersOnly":true,"allowedMcpServers":[]}`, nil, ""},
		{"servers of its own", "managed-mcp.json", `{"mcpServers":{}}`, []string{"--strict-mcp-config"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.what != "" {
				closed("claude", "managed "+c.name, c.what, "the launch proves through the client that the gate is asked; without that it ends, and names the file").report(t)
			}
			administer(t, c.file, c.text)
			g := newGuarded(t, "")
			g.steps(writes(g.world)...)
			o := g.launch()
			if c.words != nil {
				g.noSession(o, "wiring_unproved", c.words...)
				return
			}
			g.ok(o)
			g.denied()
			if !g.heard("Write", "lease_unverified") {
				t.Error("the broker has no record of the denial")
			}
		})
	}
}
