//go:build hosts

package hosts

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"leaseguard.internal/internal/fakemodel"
)

// codexExec makes Codex run unattended with nothing held back.
var codexExec = []string{"exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"}

// newCodex makes a guarded world in which Codex is in PATH.
func newCodex(t *testing.T, config string) *guarded {
	t.Helper()
	return newGuarded(t, config).ofCodex()
}

func (g *guarded) ofCodex() *guarded {
	g.runtime = "codex"
	g.forCodex()
	return g
}

func (w *world) forCodex() {
	w.Client = codex
	w.Env = append(w.Env, "PATH="+filepath.Dir(codex)+":/usr/local/bin:/usr/bin:/bin")
}

// codexHome is a file of its user's configuration of Codex.
func (w *world) codexHome(name string) string { return filepath.Join(w.Home, ".codex", name) }

// codexSteps starts the model with a script, and makes it one of Codex's. more is
// added to the user's config.toml.
func (w *world) codexSteps(more string, steps ...fakemodel.Step) {
	w.t.Helper()
	w.codexScript(more, fakemodel.Script{Steps: steps})
}

func (w *world) codexScript(more string, s fakemodel.Script) {
	w.t.Helper()
	w.script(s)
	w.write(w.codexHome("config.toml"), fmt.Sprintf(`
model = "gpt-5.4"
model_provider = "scripted"
check_for_update_on_startup = false
analytics.enabled = false
[model_providers.scripted]
name = "scripted"
base_url = "%s/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
experimental_bearer_token = "%s"
%s`, w.Model.URL(), w.Model.Key(), more))
}

// codex runs Codex itself, without guard.
func (w *world) codex(args ...string) outcome {
	w.t.Helper()
	return w.runAs(slices.Concat(codexExec, args, []string{"go"})...)
}

// launchCodex runs it under guard.
func (g *guarded) launchCodex(args ...string) outcome {
	g.t.Helper()
	return g.launchAs(slices.Concat([]string{"--"}, codexExec, args, []string{"go"})...)
}

// shell is a step in which the model runs a command.
func (w *world) shell(command string) fakemodel.Step {
	return fakemodel.Use("exec_command", input(w.t, "cmd", command))
}

// mark is one that makes the marker.
func (w *world) mark() fakemodel.Step { return w.shell("touch " + w.Marker) }

// codexHole is a row of the table of holes.
func codexHole(id, what, state, by string) hole {
	return row("codex", id, what, state, by)
}
