//go:build hosts

package hosts

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/fakemodel"
)

// Runs without guard: each thing that guard stops or watches has to happen here.

const reason = "denied by the control run"

func (w *world) expectResults(prefixes ...string) {
	w.t.Helper()
	got := w.results()
	if !slices.EqualFunc(got, prefixes, strings.HasPrefix) {
		w.t.Errorf("the model was told %q, want %q", got, prefixes)
	}
}

func TestControlBashRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.steps(fakemodel.Use("Bash", w.touch()))
	w.ok(w.run())
	w.expectResults("ok: ")
	if !w.marked() || w.Model.Count() != 2 {
		t.Errorf("marked %v, %d model requests; want true and 2", w.marked(), w.Model.Count())
	}
	if others := w.Model.Others(); w.Model.Refused() != 0 || len(others) != 0 {
		t.Errorf("the client also asked for %v, and %d times without the key", others, w.Model.Refused())
	}
}

func TestControlDenyHookBlocks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.steps(fakemodel.Use("Bash", w.touch()))
	w.ok(w.run("--settings="+w.watch("*", reason), "--setting-sources="))
	w.expectResults("error: PreToolUse:Bash hook error: " + reason)
	if w.marked() || w.Model.Count() != 2 {
		t.Errorf("marked %v, %d model requests; want false and 2", w.marked(), w.Model.Count())
	}
}

// TestControlProjectDisablesHooks shows the first attack of many: without
// --setting-sources= a project switches an inline hook off.
func TestControlProjectDisablesHooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.steps(fakemodel.Use("Bash", w.touch()))
	w.write(w.Project+"/.claude/settings.json", object{"disableAllHooks": true})
	w.ok(w.run("--settings=" + w.watch("*", reason)))
	w.expectResults("ok: ")
	if !w.marked() || len(w.hooks()) != 0 {
		t.Errorf("marked %v, hooks %v; want true and none", w.marked(), names(w.hooks()))
	}
}

func TestControlSubagent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.script(fakemodel.Script{
		Steps: []fakemodel.Step{fakemodel.Use("Agent", `{"description":"help","prompt":"HELPER: touch it","subagent_type":"general-purpose","run_in_background":false}`)},
		Others: []fakemodel.Conversation{{Name: "helper", Match: fakemodel.Prompted("HELPER:"), Steps: []fakemodel.Step{
			fakemodel.Use("Bash", w.touch()), fakemodel.Say("the helper is done"),
		}}},
	})
	w.ok(w.run("--settings="+w.watch("", ""), "--setting-sources="))
	if !w.marked() {
		t.Errorf("the subagent's call did nothing; results %q", w.results())
	}
	pre := w.hooks("PreToolUse")
	if len(pre) != 2 || pre[0].Tool != "Agent" || pre[0].Agent != "" || pre[1].Tool != "Bash" || pre[1].Agent == "" || pre[1].AgentType != "general-purpose" {
		t.Errorf("PreToolUse of %+v", pre)
	}
	if pre[0].Session != pre[1].Session {
		t.Errorf("the subagent has session %q, the main conversation %q", pre[1].Session, pre[0].Session)
	}
	if post := w.hooks("PostToolUse"); len(post) != 2 || post[0].ToolUse != pre[1].ToolUse || post[0].Agent != pre[1].Agent || post[1].ToolUse != pre[0].ToolUse {
		t.Errorf("PostToolUse of %+v", post)
	}
	var threads []string
	for _, r := range w.Model.Requests() {
		threads = append(threads, r.Conversation)
	}
	if !slices.Equal(threads, []string{"main", "helper", "helper", "main"}) {
		t.Errorf("requests of %q", threads)
	}
}

func TestControlTwoCallsInOneTurn(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"", "Bash"} {
		t.Run("denied "+tool, func(t *testing.T) {
			w := newWorld(t)
			w.steps(fakemodel.UseAll(fakemodel.Call{Name: "Bash", Input: w.touch()}, fakemodel.Call{Name: "Write", Input: string(toJSON(t, object{"file_path": w.Marker + "2", "content": "x"}))}))
			w.ok(w.run("--settings="+w.watch(tool, reason), "--setting-sources="))
			want := "ok: "
			if tool != "" {
				want = "error: PreToolUse:Bash hook error: " + reason
			}
			w.expectResults(want, "ok: ")
			if w.marked() != (tool == "") || w.Model.Count() != 2 {
				t.Errorf("marked %v, %d model requests", w.marked(), w.Model.Count())
			}
		})
	}
}

func TestControlMCPServerIsCalled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.steps(fakemodel.Use("mcp__vsphere__power_off_vm", `{"vm_name":"app-01"}`))
	w.ok(w.run("--settings="+w.watch("", ""), "--setting-sources=", "--strict-mcp-config", "--mcp-config="+w.mcp("vsphere", "power_off_vm")))
	w.expectResults(`ok: ran power_off_vm {"vm_name":"app-01"}`)
	if pre := w.hooks("PreToolUse"); len(pre) != 1 || !strings.Contains(string(pre[0].Raw), `"mcp_server":{"name":"vsphere","source":"dynamic"}`) {
		t.Errorf("PreToolUse of %s", pre[0].Raw)
	}
	if calls := w.records("mcp-power_off_vm"); len(calls) != 1 || !jsonEqual(t, calls[0], []byte(`{"vm_name":"app-01"}`)) {
		t.Errorf("the server was called with %q", calls)
	}
}

// TestControlProjectMCPServerStarts: a project's server starts unasked.
func TestControlProjectMCPServerStarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.steps(fakemodel.Use("mcp__planted__act", `{}`))
	w.write(w.Project+"/.mcp.json", w.mcp("planted", "act"))
	w.ok(w.run("--settings=" + w.watch("", "")))
	if len(w.records("mcp-act")) != 1 {
		t.Errorf("the planted server was called %d times; results %q", len(w.records("mcp-act")), w.results())
	}
}

// TestControlLostContext holds what observers rely on: /compact and /clear have
// their events, /clear changes the session's id, compaction doesn't.
func TestControlLostContext(t *testing.T) {
	w := newWorld(t)
	w.steps(fakemodel.Use("Bash", w.touch()), fakemodel.Say("touched"))
	x := w.interact("--dangerously-skip-permissions", "--settings="+w.watch("", ""), "--setting-sources=")
	count := func(event string, n int) {
		t.Helper()
		w.await(event, func() bool { return len(w.hooks(event)) >= n })
	}
	count("SessionStart", 1)
	x.shown("bypass permissions")
	x.enter("touch it")
	count("Stop", 1)
	x.enter("/compact")
	count("PostCompact", 1)
	count("SessionStart", 2)
	x.enter("/clear")
	count("SessionStart", 3)
	x.enter("/exit")
	if code := x.wait(); code != 0 {
		t.Errorf("the client ended with %d", code)
	}
	var got []string
	for _, e := range w.hooks("SessionStart", "SessionEnd", "PreCompact", "PostCompact") {
		got = append(got, e.Name+" "+e.Source+e.Trigger+e.Reason)
	}
	want := []string{
		"SessionStart startup", "PreCompact manual", "SessionStart compact", "PostCompact manual",
		"SessionEnd clear", "SessionStart clear", "SessionEnd prompt_input_exit",
	}
	if !slices.Equal(got, want) {
		t.Errorf("events\n%q, want\n%q", got, want)
	}
	starts := w.hooks("SessionStart")
	if starts[0].Session != starts[1].Session || starts[1].Session == starts[2].Session {
		t.Errorf("session ids over compact and clear: %q %q %q", starts[0].Session, starts[1].Session, starts[2].Session)
	}
}

// TestControlBypassIsAsked: without user settings the client in a terminal asks
// whether its user knows the bypass mode, though the user has said so before.
func TestControlBypassIsAsked(t *testing.T) {
	w := newWorld(t)
	w.steps()
	w.write(w.Home+"/.claude/settings.json", object{"skipDangerousModePermissionPrompt": true})
	x := w.interact("--dangerously-skip-permissions", "--setting-sources=")
	x.shown("By proceeding, you accept all responsibility")
}

// TestControlAutomaticCompaction: a conversation that grows too long is
// compacted unasked, in the middle of an unattended run.
func TestControlAutomaticCompaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.script(fakemodel.Script{
		Steps:  []fakemodel.Step{fakemodel.Use("Bash", `{"command":"true"}`), fakemodel.Use("Bash", w.touch())},
		Others: []fakemodel.Conversation{fakemodel.Compaction()},
		Tokens: 990_000,
	})
	w.ok(w.run("--settings="+w.watch("", ""), "--setting-sources="))
	var got []string
	for _, e := range w.hooks("SessionStart", "PreCompact", "PostCompact", "PreToolUse") {
		got = append(got, e.Name+" "+e.Source+e.Trigger+e.Tool)
	}
	turn := []string{"PreToolUse Bash", "PreCompact auto", "SessionStart compact", "PostCompact auto"}
	if want := slices.Concat([]string{"SessionStart startup"}, turn, turn); !slices.Equal(got, want) {
		t.Errorf("events\n%q, want\n%q", got, want)
	}
}

// TestControlOldClientFailsOpen: the client that the launcher refuses lets a
// call pass when its hook can't be started, in spite of onFailure.
func TestControlOldClientFailsOpen(t *testing.T) {
	for _, c := range []struct {
		name, client string
		marked       bool
	}{{"tested", claude, false}, {"old", claudeOld, true}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.Client = c.client
			w.steps(fakemodel.Use("Bash", w.touch()))
			settings := strings.ReplaceAll(w.watch("*", reason), self, self+"-missing")
			w.ok(w.run("--settings="+settings, "--setting-sources="))
			if w.marked() != c.marked {
				t.Errorf("marked %v, want %v; results %q", w.marked(), c.marked, w.results())
			}
		})
	}
}

// jsonEqual compares two texts as JSON values.
func jsonEqual(t *testing.T, a, b []byte) bool {
	t.Helper()
	x, y := jsontext.Value(slices.Clone(a)), jsontext.Value(slices.Clone(b))
	must(t, x.Canonicalize(lenient, jsontext.AllowDuplicateNames(true)))
	must(t, y.Canonicalize(lenient))
	return slices.Equal(x, y)
}
