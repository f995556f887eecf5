//go:build hosts

package hosts

import (
	"os"
	"strings"
	"testing"

	"leaseguard.internal/internal/fakemodel"
)

// piDrive is an attack in RPC mode, in which a program drives Pi: a session is
// replaced, or a person's command comes.
type piDrive struct {
	hole
	config string
	flag   bool // the control gives it with -e too
	plant  func(w *world)
	drive  func(w *world, r *rpc)          // until the marker is made, or would be
	under  func(g *guarded, r *rpc)        // before drive, under guard alone
	steps  func(w *world) []fakemodel.Step // default: bash makes the marker, in every turn
	saw    string                          // some result of the guarded model, or nothing
}

func (d piDrive) run(t *testing.T) {
	t.Parallel()
	d.hole = d.of("pi")
	d.report(t)
	steps := func(w *world) []fakemodel.Step {
		if d.steps != nil {
			return d.steps(w)
		}
		b := fakemodel.Use("bash", w.touch())
		return []fakemodel.Step{b, fakemodel.Say("sorry"), b, fakemodel.Say("sorry"), b}
	}
	plant := func(w *world) {
		if d.plant != nil {
			d.plant(w)
		}
	}
	t.Run("control", func(t *testing.T) {
		w := newWorld(t)
		w.forPi()
		w.piSteps(steps(w)...)
		w.write(w.hookFile(), denies)
		plant(w)
		args := []string{}
		if d.flag {
			args = []string{"-e", w.hookFile()}
		}
		d.drive(w, w.rpcPi(args...))
		if !w.marked() {
			t.Errorf("the attack has no effect even without guard; the model was told %q", w.results())
		}
	})
	t.Run("guarded", func(t *testing.T) {
		g := newPi(t, "[checkpoint]\nself = \"none\"\n"+d.config)
		g.piSteps(steps(g.world)...)
		plant(g.world)
		r := g.rpcGuarded()
		if d.under != nil {
			d.under(g, r)
		}
		d.drive(g.world, r)
		got := strings.Join(g.results(), "\n")
		if ran := g.marked(); ran != (d.State == "open") {
			t.Errorf("under guard it ran: %v, and the hole is %s; the model was told %q", ran, d.State, got)
		}
		if !strings.Contains(got, d.saw) {
			t.Errorf("the model was told %q, want %q", got, d.saw)
		}
	})
}

// TestPiAttackGuardFile: in Pi a session may be replaced within the process; its
// extensions are then read anew, and one that is gone is missed by nobody.
func TestPiAttackGuardFile(t *testing.T) {
	renew := func(change func(w *world)) func(*world, *rpc) {
		return func(w *world, r *rpc) {
			r.prompt("go")
			if w.marked() {
				w.t.Error("it ran before anything was changed")
			}
			change(w)
			r.do("new_session", nil)
			r.prompt("go")
		}
	}
	remove := func(w *world) { _ = os.Remove(w.hookFile()) }
	fork := func(w *world, r *rpc) {
		r.prompt("go")
		remove(w)
		_, id, _ := strings.Cut(r.do("get_fork_messages", nil).raw, `"entryId":"`)
		id, _, _ = strings.Cut(id, `"`)
		r.do("fork", object{"entryId": id})
		r.prompt("go")
	}
	for _, d := range []piDrive{
		{hole: hole{ID: "guard_file_deleted", What: "a hook's file is deleted, and the next new session has no hook", By: bySealed}, drive: renew(remove), saw: early},
		{hole: hole{ID: "guard_file_deleted_flag", What: "a hook's file that was given with -e is deleted; the next new session says so and goes on without", By: bySealed}, drive: renew(remove), flag: true, saw: early},
		{hole: hole{ID: "guard_file_deleted_fork", What: "a hook's file is deleted, and a fork of the conversation has no hook", By: bySealed}, drive: fork, saw: early},
	} {
		t.Run(d.ID, d.run)
	}
	t.Run("sealed", func(t *testing.T) {
		t.Parallel()
		g := newPi(t, "")
		g.piSteps(fakemodel.Use("bash", g.touch()), fakemodel.Say("sorry"), fakemodel.Use("bash", g.touch()))
		r := g.rpcGuarded()
		r.prompt("go")
		path := "/proc/" + itoa(g.session().AnchorPID) + "/fd/64"
		if err := os.WriteFile(path, []byte("export default () => {};"), 0o600); err == nil {
			t.Error("guard's extension could be written over")
		}
		if err := os.Truncate(path, 0); err == nil {
			t.Error("guard's extension could be cut off")
		}
		r.do("new_session", nil)
		r.prompt("go")
		if got := g.results(); g.marked() || len(got) != 2 || !strings.Contains(got[1], "guard: lease_revoked: ") {
			t.Errorf("marked %v, the model was told %q", g.marked(), got)
		}
	})
}

// TestPiAttackUserBash: a command of a person's, or of the program that drives
// Pi, is no tool call.
func TestPiAttackUserBash(t *testing.T) {
	bash := func(w *world, r *rpc) { r.do("bash", object{"command": "touch " + w.Marker}) }
	later := func(lower func(g *guarded)) func(*guarded, *rpc) {
		return func(g *guarded, r *rpc) {
			r.prompt("go")
			g.approve()
			lower(g)
		}
	}
	say := func(*world) []fakemodel.Step { return []fakemodel.Step{fakemodel.Say("hello")} }
	const by = "guard's extension asks about user_bash as about any change"
	for _, d := range []piDrive{
		{hole: hole{ID: "user_bash", What: "a person's !command, or RPC bash, passes no tool_call", By: by}, drive: bash},
		{hole: hole{ID: "user_bash_after_revoke", What: "a person's !command goes on when the lease has ended", By: by}, drive: bash, steps: say, under: later((*guarded).revoke)},
	} {
		t.Run(d.ID, d.run)
	}
	t.Run("approved", func(t *testing.T) {
		t.Parallel()
		g := newPi(t, "")
		g.piSteps()
		r := g.rpcGuarded()
		r.do("get_state", nil)
		g.approve()
		if m := r.do("bash", object{"command": "touch " + g.Marker}); !g.marked() {
			t.Errorf("under a lease it didn't run: %s", m.raw)
		}
	})
}
