//go:build hosts

package hosts

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/fakemodel"
)

// piAttack is what a file, a variable or an option does so that something runs
// in Pi that a hook would stop: the marker is made. Each is run without guard,
// where it has to succeed, and under guard launch. Attacks by files and variables
// alone are run there all at once, each with a marker of its own: a Pi that took
// none of them would take none by itself either.
type piAttack struct {
	hole
	files texts
	plant func(w *world)
	args  []string
	steps func(w *world) []fakemodel.Step // default: bash makes the marker
	env   []string

	// hook says how a person without guard installs one that denies everything,
	// unless approved. Pi loads it before what stands in a project.
	hook piHook
	// approved attacks are on a session with a lease, so that the gate passes
	// what the model asks for.
	approved bool
	online   bool   // Pi isn't told to leave the network alone
	config   string // of guard, beside the default
	refused  string // the launch is refused, and names this
	saw      string // what the guarded model is told of its first call; default the gate's reason
}

// texts are files below a world's directory. MARKER in them stands for the
// attack's marker, HERE for the directory, NAME for the attack, also in paths.
type texts map[string]string

type piHook uint8

const (
	piUser piHook = iota // a file of the user's agent directory
	piFlag               // -e
	piNone               // no hook sees what the attack does
)

// hookFile is the extension of a person without guard.
func (w *world) hookFile() string { return filepath.Join(w.Dir, agentDir, "extensions/guard.js") }

const (
	denies = `export default (pi) => { pi.on("tool_call", () => ({ block: true, reason: "` + reason + `" })); };`
	passes = `export default (pi) => { pi.on("tool_call", () => undefined); };`
)

// alone says that an attack needs a launch of its own.
func (a piAttack) alone() bool {
	return a.files == nil && a.env == nil || a.plant != nil || a.args != nil || a.config != "" || a.State == "open"
}

// piAttacks runs a table.
func piAttacks(t *testing.T, table []piAttack) {
	t.Parallel()
	ran := atOncePi(t, table, false) + atOncePi(t, table, true)
	for _, a := range table {
		t.Run(a.ID, func(t *testing.T) {
			t.Parallel()
			a.hole = a.of("pi")
			a.report(t)
			if strings.Contains(ran, " "+a.ID+" ") {
				t.Error("it ran under guard, where all of the table were planted at once")
			}
			t.Run("control", a.withoutGuard)
			if a.alone() {
				t.Run("guarded", a.withGuard)
			}
		})
	}
}

// atOncePi plants attacks together, and gives the names of those that ran.
func atOncePi(t *testing.T, table []piAttack, approved bool) string {
	t.Helper()
	table = slices.DeleteFunc(slices.Clone(table), func(a piAttack) bool { return a.alone() || a.approved != approved })
	if len(table) == 0 {
		return ""
	}
	g := newPi(t, "")
	var steps []fakemodel.Step
	var want []string
	for _, a := range table {
		own := *g.world
		own.Marker += "-" + a.ID
		steps, want = append(steps, a.calls(&own)...), append(want, cmp.Or(a.saw, early))
	}
	last, code := fakemodel.Use("bash", g.touch()), early
	if approved {
		steps[0], last, code = g.operator("approve", steps[0]), g.operator("revoke", last), "guard: lease_revoked: "
	}
	g.piSteps(append(steps, last)...)
	for _, a := range table {
		own := *g.world
		own.Marker += "-" + a.ID
		a.prepare(&own)
		g.Env = own.Env
	}
	o := g.launchAs("--", "-p", "go", "--model", "fake/fake")
	got := g.results()
	for i, w := range append(want, code) {
		if i >= len(got) || !strings.Contains(got[i], w) {
			t.Errorf("the model was told %q, want %q; exit %d\n%s\n%s", got, want, o.Exit, o.Stdout, o.Stderr)
			break
		}
	}
	if g.marked() {
		t.Error("a call of the model's own ran")
	}
	markers, err := filepath.Glob(g.Marker + "-*")
	must(t, err)
	return strings.ReplaceAll(" "+strings.Join(markers, "  ")+" ", g.Marker+"-", "")
}

// write plants an attack's files. JSON is added to what is there already.
func (a piAttack) write(w *world) {
	w.t.Helper()
	fill := strings.NewReplacer("MARKER", w.Marker, "HERE", w.Dir, "NAME", a.ID)
	for name, text := range a.files {
		path, text := filepath.Join(w.Dir, fill.Replace(name)), fill.Replace(text)
		switch old, err := readAll(path); {
		case strings.HasPrefix(text, "#!"):
			w.program(fill.Replace(name), text)
		case err != nil:
			w.write(path, text)
		case old == text:
		default:
			var have, more object
			must(w.t, json.Unmarshal([]byte(old), &have))
			must(w.t, json.Unmarshal([]byte(text), &more))
			w.write(path, merged(w.t, have, more))
		}
	}
}

// merged adds lists and objects up; two values of one key are a fault.
func merged(t *testing.T, have, more object) object {
	t.Helper()
	for key, value := range more {
		old, is := have[key]
		list, lists := old.([]any)
		added, lists2 := value.([]any)
		switch {
		case !is:
			have[key] = value
		case lists && lists2 && key != "npmCommand":
			have[key] = append(list, added...)
		default:
			t.Errorf("two attacks give %s", key)
		}
	}
	return have
}

func (a piAttack) calls(w *world) []fakemodel.Step {
	if a.steps == nil {
		return []fakemodel.Step{fakemodel.Use("bash", w.touch())}
	}
	return a.steps(w)
}

func (a piAttack) prepare(w *world) {
	w.t.Helper()
	a.write(w)
	if a.plant != nil {
		a.plant(w)
	}
	w.Env = append(w.Env, a.fill(w, a.env)...)
}

// fill replaces what stands for the marker and the world's directory.
func (a piAttack) fill(w *world, all []string) (filled []string) {
	for _, text := range all {
		filled = append(filled, strings.NewReplacer("MARKER", w.Marker, "HERE", w.Dir).Replace(text))
	}
	return filled
}

func (a piAttack) arguments(w *world) []string {
	args := []string{"-p", "go", "--model", "fake/fake"}
	if !a.online {
		args = append(args, "--offline")
	}
	return append(args, a.fill(w, a.args)...)
}

func (a piAttack) withoutGuard(t *testing.T) {
	w := newWorld(t)
	w.forPi()
	w.piSteps(a.calls(w)...)
	args := a.arguments(w)
	text := denies
	if a.approved {
		text = passes
	}
	switch a.hook {
	case piUser:
		w.write(w.hookFile(), text)
	case piFlag:
		w.write(filepath.Join(w.Dir, "guard.js"), text)
		args = append(args, "-e", filepath.Join(w.Dir, "guard.js"))
	case piNone:
	}
	a.prepare(w)
	o := w.piAs(args...)
	if !w.marked() {
		t.Fatalf("the attack has no effect even without guard: exit %d, the model was told %q\n%s\n%s", o.Exit, w.results(), o.Stdout, o.Stderr)
	}
}

func (a piAttack) withGuard(t *testing.T) {
	g := newPi(t, "[checkpoint]\nself = \"none\"\n"+a.config)
	steps := a.calls(g.world)
	last := fakemodel.Use("bash", g.touch())
	if a.approved {
		steps[0], last = g.operator("approve", steps[0]), g.operator("revoke", last)
	}
	g.piSteps(append(steps, last)...)
	a.prepare(g.world)
	o := g.launchAs(append([]string{"--"}, a.arguments(g.world)...)...)
	if a.refused != "" {
		g.noSession(o, "flag_refused", a.refused)
		return
	}
	got := g.results()
	if ran := g.marked(); ran != (a.State == "open") {
		t.Errorf("under guard it ran: %v, and the hole is %s; the model was told %q", ran, a.State, got)
	}
	saw, code := cmp.Or(a.saw, early), "lease_unverified"
	if a.approved {
		code = "lease_revoked"
	}
	if len(got) == 0 || !strings.Contains(got[0], saw) {
		t.Errorf("of its first call the model was told %q, want %q; exit %d\n%s\n%s", got, saw, o.Exit, o.Stdout, o.Stderr)
	}
	if len(got) < 2 || !strings.Contains(got[len(got)-1], "guard: "+code+": ") {
		t.Errorf("at last the model was told %q, want the gate's reason", got)
	}
	if !g.heard("bash", code) {
		t.Errorf("the broker has no record of a denial of bash with %s: %+v", code, g.audit())
	}
}
