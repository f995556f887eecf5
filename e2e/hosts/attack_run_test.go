//go:build hosts

package hosts

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/fakemodel"
	"leaseguard.internal/internal/sandbox/sandboxtest"
)

// attack is what a file of a project or of a user does so that something runs
// that the gate would stop: the marker is made. Each is run twice, with equal
// files and an equal model: without guard, where it has to succeed, and under
// guard launch.
type attack struct {
	name  string                      // of the hole too, with _ for spaces
	what  string                      // the hole, in one line for people
	by    string                      // what closes it
	plant func(w *world, gate object) // gate is the entry of the hook that is attacked

	prompt string                          // default "go"
	args   []string                        // of the client
	manual bool                            // permissions aren't bypassed
	steps  func(w *world) []fakemodel.Step // default: Bash makes the marker
	person bool                            // in a terminal, until the marker is there or the model was asked

	// control says how the hook is installed that the attack beats: one that
	// denies everything, unless approved.
	control install
	// approved attacks are on a session that holds a lease, so that the gate
	// passes what the model asks for; else everything is denied.
	approved bool
	ends     string // under guard the client says this and ends
	claudex  bool   // it is tried on claudex too
	nightly  bool   // it is much like another one, which every run tries
	saw      string // what the guarded model is told of its first call; default the gate's reason
}

// What closes holes of settings.
const (
	byNoSettings = "--setting-sources= : the client reads no settings file, and nothing that comes with a project"
	byFilter     = "the variable is dropped, also from an env block that is carried over"
	byServers    = "--strict-mcp-config: no server but those that guard gives"
)

// install is how a person without guard installs a hook.
type install uint8

const (
	inline      install = iota // --settings= and nothing else
	userFile                   // in the user's settings, as a program with arguments
	userShell                  // there, as a shell line
	projectFile                // plant does it
	none                       // the attack does what no hook would stop, or beats no hook of this version
)

// attacks runs a table, two cases at once: most of the time is the clients' own.
func attacks(t *testing.T, table []attack) {
	for _, a := range table {
		if a.nightly && !sandboxtest.Nightly() {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			for runtime, as := range claudes {
				if runtime == "claudex" && !a.claudex {
					continue
				}
				t.Run(runtime, func(t *testing.T) {
					row := closed(runtime, a.name, a.what, a.by)
					row.Nightly = a.nightly
					row.report(t)
					t.Run("control", func(t *testing.T) { a.unguarded(as(newGuarded(t, "")).world) })
					t.Run("guarded", func(t *testing.T) { a.withGuard(as(newGuarded(t, ""))) })
				})
			}
		})
	}
}

// closed is the row of a hole of the tested version that guard closes.
func closed(runtime, name, what, by string) hole {
	return row(runtime, slug(name), what, "closed", by)
}

// slug makes a file's name of a test's.
func slug(name string) string {
	return strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(name), "_"), "_")
}

func (a attack) calls(w *world) []fakemodel.Step {
	if a.steps == nil {
		return []fakemodel.Step{fakemodel.Use("Bash", w.touch())}
	}
	return a.steps(w)
}

// arguments are those of the client, guard's own not among them.
func (a attack) arguments() []string {
	args := slices.Clone(a.args)
	if !a.manual {
		args = append(args, "--dangerously-skip-permissions")
	}
	if a.person {
		return args
	}
	prompt := a.prompt
	if prompt == "" {
		prompt = "go"
	}
	return append([]string{"-p", prompt}, args...)
}

// withoutGuard is unguarded in a world of its own.
func (a attack) withoutGuard(t *testing.T) { a.unguarded(newWorld(t)) }

func (a attack) unguarded(w *world) {
	t := w.t
	w.steps(a.calls(w)...)
	tool := "*"
	if a.approved {
		tool = ""
	}
	entry := w.hook(tool, reason)
	gate := entry["hooks"].([]any)[0].(object)
	settings := object{"hooks": object{"PreToolUse": []any{entry}}, "skipDangerousModePermissionPrompt": true}
	args := a.arguments()
	switch a.control {
	case inline:
		args = append(args, "--settings="+string(toJSON(t, settings)))
	case userShell:
		shell := object{"type": "command", "command": "'" + strings.Join(append([]string{self}, gate["args"].([]string)...), "' '") + "'", "timeout": 60, "onFailure": "block"}
		entry["hooks"] = []any{shell}
		fallthrough
	case userFile:
		w.write(filepath.Join(w.Config, "settings.json"), settings)
	case projectFile, none:
	}
	if a.plant != nil {
		a.plant(w, gate)
	}
	o := w.attacked(a, args, len(a.calls(w))+1)
	if !w.marked() {
		t.Fatalf("the attack has no effect even without guard: exit %d, the model was told %q, hooks %q\n%s\n%s", o.Exit, w.results(), names(w.hooks()), o.Stdout, o.Stderr)
	}
}

func (a attack) withGuard(g *guarded) {
	t := g.t
	steps := a.calls(g.world)
	last := fakemodel.Use("Bash", g.touch())
	if a.approved {
		steps[0], last = g.operator("approve", steps[0]), g.operator("revoke", last)
	}
	g.steps(append(steps, last)...)
	if a.plant != nil {
		a.plant(g.world, g.gate())
	}
	w := *g.world
	w.Client = filepath.Join(g.bin, "guard")
	o := w.attacked(a, append([]string{"launch", cmp.Or(g.runtime, "claude"), "--"}, a.arguments()...), len(steps)+2)
	got := g.results()
	if g.marked() {
		t.Errorf("it ran under guard; the model was told %q", got)
	}
	if a.ends != "" {
		if o.Exit != 1 || !strings.Contains(o.Stderr, a.ends) || len(got) != 0 {
			t.Errorf("exit %d, the model was told %q, want an end with %q\n%s", o.Exit, got, a.ends, o.Stderr)
		}
		return
	}
	saw := a.saw
	if saw == "" {
		saw = early
	}
	if len(got) == 0 || !strings.Contains(got[0], saw) {
		t.Errorf("of its first call the model was told %q, want %q\n%s\n%s", got, saw, o.Stdout, o.Stderr)
	}
	code := "lease_unverified"
	if a.approved {
		code = "lease_revoked"
	}
	if len(got) < 2 || !strings.Contains(got[len(got)-1], "guard: "+code+": ") {
		t.Errorf("at last the model was told %q, want the gate's reason", got)
	}
	if !g.heard("Bash", code) {
		t.Errorf("the broker has no record of a denial of Bash with %s: %+v", code, g.audit())
	}
}

// attacked runs the client of an attack to its end; with a person until the
// marker is there or the model was asked so often.
func (w *world) attacked(a attack, args []string, requests int) outcome {
	w.t.Helper()
	if !a.person {
		return w.runAs(args...)
	}
	x := w.interact(args...)
	x.shown("bypass permissions")
	x.enter("go")
	w.await("the end of the turn", func() bool { return w.Model.Count() >= requests || w.marked() })
	x.keys("/exit\r")
	return outcome{Stdout: x.screen()}
}

// gate is the entry of guard's hook, which TestAttackKnowsTheEntry holds.
func (g *guarded) gate() object {
	run := filepath.Join(g.Dir, "run/guard/broker.sock")
	return object{
		"type": "command", "command": filepath.Join(g.bin, "guard-gate"), "timeout": 180, "onFailure": "block",
		"args": []string{"claude", "--socket", run, "--broker-uid", itoa(os.Getuid()), "--role", "decide", "--deadline", "150"},
	}
}

// recorded is what these tests read of an audit record.
type recorded struct {
	Event   string `json:"event"`
	Session string `json:"session"`
	Hook    string `json:"hook_event"`
	Tool    string `json:"tool"`
	Verdict string `json:"verdict"`
	Code    string `json:"code"`
	Reason  string `json:"reason"`
}

// audit reads all records.
func (g *guarded) audit() []recorded {
	g.t.Helper()
	var all []recorded
	for line := range strings.Lines(g.guard("log", "--json").Stdout) {
		var r recorded
		must(g.t, json.Unmarshal([]byte(line), &r))
		all = append(all, r)
	}
	return all
}

// heard tells whether the gate's question about a tool was answered so.
func (g *guarded) heard(tool, code string) bool {
	g.t.Helper()
	return slices.ContainsFunc(g.audit(), func(r recorded) bool { return r.Event == "verdict" && r.Tool == tool && r.Code == code })
}
