//go:build hosts

package hosts

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/fakemodel"
	"leaseguard.internal/internal/wire"
)

// codexRunning is how Codex tells of a command that goes on.
var codexRunning = regexp.MustCompile(`Process running with session ID (\d+)`)

// TestCodexNoFalseAlarm makes the calls that an unattended run can make under one
// lease, in the way of each family of models: none of them is taken for an attack,
// and none costs the lease.
func TestCodexNoFalseAlarm(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		model string
		steps func(g *guarded) []fakemodel.Step
		calls []string // tools that the broker was asked about
		ran   string   // of each call in order, whether it is told of after it ran
	}{
		{"gpt-5.4", classicCalls, []string{"Bash", "mcp__files__act", "get_goal", "list_mcp_resources", "view_image", "spawn_agent"}, "yyynyyynny"},
		{"gpt-5.5", patchCalls, []string{"Bash", "apply_patch", "tool_search"}, "yynn"},
		{"gpt-6.2-sol", codeModeCalls, []string{"Bash", "apply_patch", "clockcurr_time", "collaborationspawn_agent"}, "ny"},
	} {
		t.Run(tc.model, func(t *testing.T) {
			t.Parallel()
			g := newCodex(t, strings.Replace(freely, `"allow"`, `"deny"`, 1)+"\n[[tool]]\nmatch = \"mcp__files__act\"\nclass = \"read_only\"\n") // the built-in ones are known
			var s wire.Session
			steps := tc.steps(g)
			steps[0] = between(g.approve, steps[0])
			steps = append(steps, between(func() { s = g.session() }, fakemodel.Say("all done")))
			g.codexScript(g.server("files", "act"), fakemodel.Script{Steps: steps, Others: []fakemodel.Conversation{{Name: "child", Match: fakemodel.Prompted("HELPER:")}}})
			g.ok(g.launchCodex("--model", tc.model))
			g.quiet(func() (string, string) { return s.State, s.Alarm })
			for _, tool := range tc.calls {
				if passed := g.logged(func(r audit.Record) bool { return r.HookEvent == "PreToolUse" && r.Tool == tool && r.Verdict == "pass" }); len(passed) == 0 {
					t.Errorf("%s never passed; the model was told %q", tool, g.results())
				}
			}
			for i, want := range tc.ran {
				told := g.logged(func(r audit.Record) bool { return r.HookEvent == "PostToolUse" && r.ToolUse == fakemodel.CallID(i+1) })
				if (len(told) == 1) != (want == 'y') {
					t.Errorf("call %d: %d events after it ran, want %c", i+1, len(told), want)
				}
			}
		})
	}
}

// classicCalls are those of models that call tools one by one.
func classicCalls(g *guarded) []fakemodel.Step {
	session := func(_ context.Context, r *fakemodel.Request) (fakemodel.Turn, error) {
		id, err := r.Find(codexRunning)
		if err != nil {
			return fakemodel.Turn{}, err
		}
		return fakemodel.Turn{Calls: []fakemodel.Call{{Name: "write_stdin", Input: `{"session_id":` + id[0] + `,"chars":""}`}}}, nil
	}
	return []fakemodel.Step{
		g.shell("echo hi"), g.shell("exit 3"),
		fakemodel.Use("exec_command", `{"cmd":"sleep 1","yield_time_ms":250}`), session, // its Post comes with write_stdin
		fakemodel.UseAll(fakemodel.Call{Name: "mcp__files__act", Input: `{"n":1.0}`}, fakemodel.Call{Name: "get_goal"}, fakemodel.Call{Name: "list_mcp_resources"},
			fakemodel.Call{Name: "view_image", Input: `{"path":"none.png"}`}, fakemodel.Call{Name: "exec_command", Input: `{"cmd":["x"]}`}),
		fakemodel.Use("spawn_agent", `{"message":"HELPER: say hi"}`),
	}
}

// codexPatch is one that adds a file.
func codexPatch(name string) string {
	return "*** Begin Patch\n*** Add File: " + name + "\n+x\n*** End Patch"
}

// patchCalls are those of models that have a tool for patches.
func patchCalls(g *guarded) []fakemodel.Step {
	return []fakemodel.Step{
		fakemodel.UseAll(fakemodel.Call{Name: "apply_patch", Input: codexPatch("a.txt")}, fakemodel.Call{Name: "exec_command", Input: input(g.t, "cmd", "echo hi")}),
		g.shell("apply_patch <<'E'\n" + codexPatch("b.txt") + "\nE\n"),
		fakemodel.Use("tool_search", `{"query":"touch"}`),
	}
}

// codeModeCalls are those of models that call tools from a script.
func codeModeCalls(*guarded) []fakemodel.Step {
	script := `await tools.exec_command({cmd: "echo hi"}); await tools.apply_patch("*** Begin Patch\n*** Add File: c.txt\n+x\n*** End Patch"); ` +
		`text(await tools.clock__curr_time({}))`
	return []fakemodel.Step{fakemodel.Use("exec", script), fakemodel.Use("spawn_agent", `{"task_name":"t","message":"HELPER: say hi"}`)}
}
