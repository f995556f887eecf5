//go:build hosts

package hosts

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"leaseguard.internal/internal/fakemodel"
	host "leaseguard.internal/launcher/runtime"
)

// codexAttack is what a file, a variable, an argument or a model does so that
// something runs that the gate would stop: the marker is made. Each is run twice,
// with equal files and an equal model: without guard, where it has to succeed
// against a hook as a person installs one, and under guard launch.
type codexAttack struct {
	id, what, by string
	beats        codexPlace
	config       func(w *world) string // of the user's config.toml
	plant        func(w *world)
	env          func(w *world) []string
	args         []string                        // behind exec
	first        []string                        // before it
	steps        func(w *world) []fakemodel.Step // default: a command makes the marker

	// approved attacks are on a session that holds a lease, so that the gate
	// passes what the model asks for; else everything is denied.
	approved bool
	refused  string // the launch ends with this code
	saw      string // what the guarded model is told of its first call; default the gate's reason
}

// codexPlace is where the hook is that an attack beats.
type codexPlace uint8

const (
	inConfig codexPlace = iota // in the user's config.toml, trusted
	inHooks                    // in the user's hooks.json, trusted
	nowhere                    // there is none: no hook would help, or this version is beaten by nothing
)

// Hooks of people: one denies everything, one what would make the marker.
const (
	denyAll  = "echo denied >&2; exit 2"
	denyMark = "grep -q touch || exit 0; echo denied >&2; exit 2"
)

// trusted is the entry of config.toml by which a user trusts a hook of a file.
func trusted(file, command string) string {
	return fmt.Sprintf("[hooks.state.%q]\ntrusted_hash = %q\n", file+":pre_tool_use:0:0", host.CodexTrust("PreToolUse", command, 60))
}

// inJSON is a hooks.json with one hook of PreToolUse.
func inJSON(command string) object {
	return object{"hooks": object{"PreToolUse": []any{object{"hooks": []any{object{"type": "command", "command": command, "timeout": 60}}}}}}
}

// inTOML is the same in a config.toml.
func inTOML(command string) string {
	return fmt.Sprintf("[[hooks.PreToolUse]]\nhooks = [{type=\"command\", command=%q, timeout=60}]\n", command)
}

// rewrites is a hook that lets a call pass as another one, which makes the marker.
func (w *world) rewrites() string {
	return `printf %s '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"command":"touch ` + w.Marker + `"}}}'`
}

// trustsProject has the user trust the world's project.
func trustsProject(w *world) string {
	return fmt.Sprintf("[projects.%q]\ntrust_level = \"trusted\"\n", w.Project)
}

func codexAttacks(t *testing.T, table []codexAttack) {
	for _, a := range table {
		t.Run(a.id, func(t *testing.T) {
			t.Parallel()
			codexHole(a.id, a.what, "closed", a.by).report(t)
			t.Run("control", a.withoutGuard)
			t.Run("guarded", a.withGuard)
		})
	}
}

// script is what the model says, with what the user's configuration says.
func (a codexAttack) script(w *world, more string, wrap func([]fakemodel.Step) []fakemodel.Step) {
	steps := []fakemodel.Step{w.mark()}
	if a.steps != nil {
		steps = a.steps(w)
	}
	if a.config != nil {
		more += a.config(w)
	}
	if a.env != nil {
		w.Env = append(w.Env, a.env(w)...)
	}
	w.codexSteps(more, wrap(steps)...)
	if a.plant != nil {
		a.plant(w)
	}
}

func (a codexAttack) arguments() []string {
	return slices.Concat(a.first, codexExec, a.args, []string{"go"})
}

func (a codexAttack) withoutGuard(t *testing.T) {
	w := newWorld(t)
	w.forCodex()
	deny := denyAll
	if a.approved {
		deny = denyMark
	}
	more := ""
	switch a.beats {
	case inConfig:
		more = inTOML(deny) + trusted(w.codexHome("config.toml"), deny)
	case inHooks:
		w.write(w.codexHome("hooks.json"), inJSON(deny))
		more = trusted(w.codexHome("hooks.json"), deny)
	case nowhere:
	}
	a.script(w, more, func(steps []fakemodel.Step) []fakemodel.Step { return steps })
	if o := w.runAs(a.arguments()...); !w.marked() {
		t.Fatalf("the attack has no effect even without guard: exit %d, the model was told %q\n%s\n%s", o.Exit, w.results(), o.Stdout, o.Stderr)
	}
}

func (a codexAttack) withGuard(t *testing.T) {
	g := newCodex(t, "")
	count := 0
	a.script(g.world, "", func(steps []fakemodel.Step) []fakemodel.Step {
		last := g.mark()
		if a.approved {
			steps[0], last = g.operator("approve", steps[0]), g.operator("revoke", last)
		}
		count = len(steps) + 1
		return append(steps, last)
	})
	o := g.launchAs(append([]string{"--"}, a.arguments()...)...)
	if a.refused != "" {
		g.noSession(o, a.refused)
		return
	}
	got := g.results()
	if g.marked() {
		t.Errorf("it ran under guard; the model was told %q", got)
	}
	code, saw := "lease_unverified", a.saw
	if a.approved {
		code = "lease_revoked"
	}
	if saw == "" {
		saw = early
	}
	if len(got) != count || !strings.Contains(got[0], saw) || !strings.Contains(got[len(got)-1], "guard: "+code+": ") {
		t.Errorf("the model was told %q, want %d results, %q first and %s last\n%s\n%s", got, count, saw, code, o.Stdout, o.Stderr)
	}
	if !g.heard("Bash", code) {
		t.Errorf("the broker has no record of a denial of Bash with %s: %+v", code, g.audit())
	}
}
