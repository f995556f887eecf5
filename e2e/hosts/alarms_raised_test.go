//go:build hosts

package hosts

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/fakemodel"
)

// managed makes the administrator's settings, which a user's session can't keep
// out. The stage that root makes has an /etc of its own.
func managed(t *testing.T, settings object) {
	t.Helper()
	const file = "/etc/claude-code/managed-settings.json"
	if err := os.WriteFile(file, toJSON(t, settings), 0o644); err != nil {
		t.Skipf("this run has no /etc of its own, since it wasn't started by root: %v", err)
	}
	t.Cleanup(func() { must(t, os.RemoveAll(file)) })
}

// alarmed demands that a session which lost its lease by an alarm gets none
// before an operator has cleared it.
func (g *guarded) alarmed(code string) {
	g.t.Helper()
	g.awaitLog("alarm "+code, func(r audit.Record) bool { return r.Event == audit.EventAlarm && r.Code == code })
	s := g.session()
	if s.State != "UNVERIFIED" || s.Alarm != code {
		g.t.Errorf("after the alarm the session is %s with alarm %q", s.State, s.Alarm)
	}
	if out := g.guard("approve", s.ID); out.Exit != 1 || !strings.Contains(out.Stderr, "guard: alarm_raised: ") {
		g.t.Errorf("approve ended with %d: %s", out.Exit, out.Stderr)
	}
	g.operate("approve", s.ID, "--clear-alarm")
}

// TestManagedRewriteIsJudged: a hook that guard can't keep out, the
// administrator's, changes a call before the gate is asked, so that what is
// judged is what runs.
func TestManagedRewriteIsJudged(t *testing.T) {
	g := newGuarded(t, "")
	w := newWorld(t)
	probes := []probe{{"rewritten", "Bash", `{"command":"true"}`, "Pre Post | bytes | ~command"}}
	rewrite := object{"type": "command", "command": self, "args": []string{"play-rewrite", w.touch()}}
	managed(t, object{"hooks": object{"PreToolUse": []any{object{"matcher": "Bash", "hooks": []any{rewrite}}}}})
	w.steps(probes[0].step())
	w.ok(w.run("--settings="+w.watch("", ""), "--setting-sources="))
	w.report(probes)
	if m := w.measure(probes[0]); !w.marked() || string(m.pre.Input) != w.touch() {
		t.Errorf("marked %v; PreToolUse has %s", w.marked(), m.pre.Raw)
	}

	must(t, os.Remove(w.Marker))
	acts := []act{
		{name: "early", tool: "Bash", input: `{"command":"true"}`, want: "lease_unverified", after: func() {
			if w.marked() {
				t.Error("it ran without a lease")
			}
		}},
		{name: "late", tool: "Bash", input: `{"command":"true"}`, want: "ok: ", before: g.approve},
	}
	g.steps(plan(acts)...)
	g.ok(g.launch())
	g.came(acts)
	if !w.marked() || len(g.alarms()) != 0 {
		t.Errorf("marked %v, alarms %q", w.marked(), g.alarms())
	}
}

// TestNoRewritingHook: those of a project and of a user are kept out, so that
// what ran is what was judged.
func TestNoRewritingHook(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "")
	acts := []act{{name: "harmless", tool: "Bash", input: `{"command":"true"}`, want: "ok: ", before: g.approve}}
	g.steps(plan(acts)...)
	rewrite := object{"hooks": object{"PreToolUse": []any{object{"hooks": []any{object{
		"type": "command", "command": self, "args": []string{"play-rewrite", g.touch()},
	}}}}}}
	for _, file := range []string{
		filepath.Join(g.Project, ".claude/settings.json"), filepath.Join(g.Project, ".claude/settings.local.json"),
		filepath.Join(g.Home, ".claude/settings.json"), filepath.Join(g.Home, ".claude/settings.local.json"),
	} {
		g.write(file, rewrite)
	}
	g.ok(g.launch())
	g.came(acts)
	if g.marked() || len(g.alarms()) != 0 {
		t.Errorf("marked %v, alarms %q", g.marked(), g.alarms())
	}
}

// TestAlarmUngatedCall: an administrator takes the gate's hook out of a running
// session. The change itself locks the session, and the call that runs then is
// found out by the hook that stayed.
func TestAlarmUngatedCall(t *testing.T) {
	g := newGuarded(t, "")
	observe := g.gate()
	observe["args"].([]string)[6] = "observe"
	call := func(_ context.Context, r *fakemodel.Request) (fakemodel.Turn, error) {
		if slices.Contains(g.alarms(), "ungated_call") {
			g.alarmed("managed_settings_changed") // the change itself, which no answer stops, has locked it before
			return fakemodel.Turn{Text: "all done"}, nil
		}
		time.Sleep(200 * time.Millisecond) // the client takes a second to look at the file again
		return fakemodel.Turn{Calls: []fakemodel.Call{{Name: "Bash", Input: `{"command":"true"}`}}}, nil
	}
	g.steps(slices.Concat([]fakemodel.Step{between(g.approve, call), between(func() {
		managed(t, object{"allowManagedHooksOnly": true, "hooks": object{"PostToolUse": []any{object{"matcher": "*", "hooks": []any{observe}}}}})
	}, call)}, slices.Repeat([]fakemodel.Step{call}, 40))...)
	g.ok(g.launch())
	if !slices.Contains(g.alarms(), "ungated_call") {
		t.Errorf("alarms %q", g.alarms())
	}
}
