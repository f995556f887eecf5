//go:build hosts

package hosts

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leaseguard.internal/internal/fakemodel"
)

// piAttack is what a file, a variable or an option does so that something runs
// in Pi that a hook would stop: the marker is made. Each is run twice, without
// guard, where it has to succeed, and under guard launch.
type piAttack struct {
	hole
	plant func(w *world)
	args  []string
	steps func(w *world) []fakemodel.Step // default: bash makes the marker
	env   func(w *world) []string         // of both

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

// piAttacks runs a table, each case beside others: most of the time is Pi's own.
func piAttacks(t *testing.T, table []piAttack) {
	t.Parallel()
	for _, a := range table {
		t.Run(a.ID, func(t *testing.T) {
			t.Parallel()
			a.Host, a.Version = "pi", piVersion
			if a.State == "" {
				a.State = "closed"
			}
			a.report(t)
			t.Run("control", a.withoutGuard)
			t.Run("guarded", a.withGuard)
		})
	}
}

func (a piAttack) calls(w *world) []fakemodel.Step {
	if a.steps == nil {
		return []fakemodel.Step{fakemodel.Use("bash", w.touch())}
	}
	return a.steps(w)
}

func (a piAttack) prepare(w *world) {
	if a.plant != nil {
		a.plant(w)
	}
	if a.env != nil {
		w.Env = append(w.Env, a.env(w)...)
	}
}

// arguments may speak of the marker, and of the world's directory.
func (a piAttack) arguments(w *world) (args []string) {
	args = []string{"--model", "fake/fake"}
	if !a.online {
		args = slices.Clone(piFlags)
	}
	for _, arg := range a.args {
		args = append(args, strings.NewReplacer("MARKER", w.Marker, "DIR", w.Dir).Replace(arg))
	}
	return args
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
	o := w.piAs(append([]string{"-p", "go"}, args...)...)
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
	o := g.launchPiAs(append([]string{"--", "-p", "go"}, a.arguments(g.world)...)...)
	if a.refused != "" {
		g.noSession(o, "flag_refused", a.refused)
		return
	}
	got := g.results()
	if ran := g.marked(); ran != (a.State == "open") {
		t.Errorf("under guard it ran: %v, and the hole is %s; the model was told %q", ran, a.State, got)
	}
	saw, code := a.saw, "lease_unverified"
	if saw == "" {
		saw = "guard: lease_unverified: "
	}
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
