//go:build hosts

package hosts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leaseguard.internal/internal/fakemodel"
	"leaseguard.internal/internal/sandbox/sandboxtest"
	host "leaseguard.internal/launcher/runtime"
)

// TestMeasureManagedFiles: which hooks run beside which files of an
// administrator's, on the client and as guard computes it. A hook of the
// session's own stands in its arguments each time.
func TestMeasureManagedFiles(t *testing.T) {
	const main, early, own, late = "managed-settings.json", "managed-settings.d/10-x.json", "managed-settings.d/50-own.json", "managed-settings.d/90-x.json"
	const only, off = `{"allowManagedHooksOnly":true}`, `{"disableAllHooks":true}`
	const sealed, loose = `{"allowManagedHooksOnly":true,"hooks":HOOKS}`, `{"hooks":HOOKS}`
	for i, c := range []struct {
		name   string
		files  []string // path, text, …; HOOKS in a text stands for a hook of the administrator's
		change []string // in what HOOKS stands for
		runs   string   // "managed", "own", both, or "" for none
	}{
		{name: "managed only", files: []string{own, sealed}, runs: "managed"},
		{name: "others too", files: []string{own, loose}, runs: "managed own"},
		{name: "others again by a later file", files: []string{own, sealed, late, `{"allowManagedHooksOnly":false}`}, runs: "managed own"},
		{name: "switched off by a later file", files: []string{own, sealed, late, off}, runs: ""},
		{name: "hook that isn't loaded", files: []string{own, sealed}, change: []string{`"timeout":60`, `"timeout":0`}, runs: ""},
		{name: "matcher that meets nothing", files: []string{own, sealed}, change: []string{`"matcher":"*"`, `"matcher":"("`}, runs: ""},
		{name: "plugins' hooks only", files: []string{own, `{"strictPluginOnlyCustomization":["hooks"],"hooks":HOOKS}`}, runs: "managed"},
		// The rest at night.
		{name: "others by an earlier file", files: []string{early, `{"allowManagedHooksOnly":false}`, own, sealed}, runs: "managed"},
		{name: "switched off by the main file", files: []string{main, off, own, sealed}, runs: ""},
		{name: "switched off and on", files: []string{main, off, own, sealed, late, `{"disableAllHooks":false}`}, runs: "managed"},
		{name: "switched off in no form that counts", files: []string{own, sealed, late, `{"disableAllHooks":"true"}`}, runs: "managed"},
		{name: "files that aren't read", files: []string{own, sealed, "managed-settings.d/.x.json", off, "managed-settings.d/x.JSON", off, "managed-settings.d/x", off}, runs: "managed"},
		{name: "behind a byte order mark", files: []string{own, sealed, late, "\xef\xbb\xbf" + off}, runs: ""},
		{name: "twice in one file", files: []string{own, sealed, late, `{"disableAllHooks":true,"disableAllHooks":false}`}, runs: "managed"},
		{name: "empty file", files: []string{main, " \n", own, sealed}, runs: "managed"},
		{name: "another's bad hook", files: []string{main, `{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"x","timeout":0}]}]}}`, own, sealed}, runs: "managed"},
		{name: "hooks nowhere", files: []string{main, only}, runs: ""},
	} {
		if i > 6 && !sandboxtest.Nightly() {
			break
		}
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.steps(fakemodel.Use("Bash", `{"command":"true"}`))
			hooks := string(toJSON(t, object{"PreToolUse": []any{w.hook("", "")}}))
			for p := range slices.Chunk(c.change, 2) {
				hooks = strings.Replace(hooks, p[0], p[1], 1)
			}
			var all []host.Managed
			for f := range slices.Chunk(c.files, 2) {
				text := strings.Replace(f[1], "HOOKS", hooks, 1)
				administer(t, f[0], text)
				all = append(all, host.Managed{Path: filepath.Join("/etc/claude-code", f[0]), Data: []byte(text)})
			}
			self := *w
			self.Records = filepath.Join(w.Dir, "own")
			must(t, os.Mkdir(self.Records, 0o755))
			w.ok(w.run("--settings="+string(toJSON(t, object{"hooks": object{"PreToolUse": []any{self.hook("", "")}}})), "--setting-sources="))
			var ran []string
			if len(w.hooks()) > 0 {
				ran = append(ran, "managed")
			}
			if len(self.hooks()) > 0 {
				ran = append(ran, "own")
			}
			e := host.InEffect(all)
			var computed []string
			if len(e.Off) == 0 && slices.ContainsFunc(e.Hooks, func(h host.ManagedHook) bool {
				return h.Matcher == "*" && strings.Contains(string(h.Entry), "play-hook")
			}) {
				computed = append(computed, "managed")
			}
			if len(e.Off) == 0 && !e.Alone() {
				computed = append(computed, "own")
			}
			if got := strings.Join(ran, " "); got != c.runs || strings.Join(computed, " ") != c.runs {
				t.Errorf("the client runs hooks %q, guard computes %q, want %q", got, strings.Join(computed, " "), c.runs)
			}
		})
	}
}
