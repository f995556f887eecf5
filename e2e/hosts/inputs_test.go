//go:build hosts

package hosts

import (
	"context"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"leaseguard.internal/internal/fakemodel"
)

// calls are one of each tool of an unattended run, and what a model gets wrong.
// The client refuses what doesn't fit a tool's schema, or what the tool itself
// checks first, before any hook hears of it.
func (w *world) calls() []probe {
	t := w.t
	w.write(w.Project+"/a.txt", "one\ntwo\n")
	w.write(w.Project+"/n.ipynb", `{"cells":[{"cell_type":"code","id":"c1","metadata":{},"source":["1"],"outputs":[],"execution_count":null}],"metadata":{},"nbformat":4,"nbformat_minor":5}`)
	w.write(w.Project+"/.claude/skills/note/SKILL.md", "---\nname: note\ndescription: a note\n---\nThink of it.\n")
	file := func(name string) string { return string(toJSON(t, w.Project+"/"+name)) }
	return []probe{
		{"bash", "Bash", `{"command":"true"}`, ""},
		{"bash with spaces", "Bash", `{ "description" : "d",  "command":"tr\u0075e" }`, ""},
		{"bash doubled key", "Bash", `{"command":"false","command":"true"}`, ""},
		{"bash unknown key", "Bash", `{"command":"true","zeal":1}`, unasked},
		{"bash number as text", "Bash", `{"command":"true","timeout":"5000"}`, "Pre Post | bytes | ~timeout"},
		{"bash timeout", "Bash", `{"command":"true","timeout":5000}`, ""},
		{"bash background", "Bash", `{"command":"true","run_in_background":true}`, ""},
		{"bash cd", "Bash", `{"command":"cd ` + w.Project + ` && true"}`, "Pre Post | bytes | ~command"},
		{"bash exit 3", "Bash", `{"command":"echo out; exit 3"}`, "Pre PostFailure | bytes | same"},
		{"bash timed out", "Bash", `{"command":"sleep 20","timeout":300}`, "Pre PostFailure | bytes | same"},
		{"bash no command", "Bash", `{"description":"d"}`, unasked},
		{"bash command a number", "Bash", `{"command":7}`, unasked},
		{"bash null", "Bash", `{"command":"true","description":null}`, unasked},
		{"broken json", "Bash", `{"command":"true"`, unasked},
		{"array input", "Bash", `["true"]`, unasked},
		{"edit unread", "Edit", `{"file_path":` + file("a.txt") + `,"old_string":"one","new_string":"eins"}`, "Pre Post | bytes | +replace_all"},
		{"read", "Read", `{"file_path":` + file("a.txt") + `}`, ""},
		{"read relative", "Read", `{"file_path":"a.txt"}`, "Pre Post | bytes | ~file_path"},
		{"read limit as text", "Read", `{"file_path":` + file("a.txt") + `,"limit":"1"}`, "Pre Post | bytes | ~limit"},
		{"read missing", "Read", `{"file_path":` + file("none") + `}`, "Pre PostFailure | bytes | same"},
		{"edit", "Edit", `{"file_path":` + file("a.txt") + `,"old_string":"one","new_string":"eins"}`, unasked},
		{"edit trailing space", "Edit", `{"file_path":` + file("a.txt") + `,"old_string":"two","new_string":"zwei  \n"}`, "Pre Post | bytes | +replace_all ~new_string"},
		{"edit no match", "Edit", `{"file_path":` + file("a.txt") + `,"old_string":"nine","new_string":"neun"}`, unasked},
		{"edit same", "Edit", `{"file_path":` + file("a.txt") + `,"old_string":"eins","new_string":"eins"}`, unasked},
		{"write new", "Write", `{"file_path":` + file("b.txt") + `,"content":"b  \r\n"}`, "Pre Post | bytes | ~content"},
		{"write relative", "Write", `{"file_path":"c.txt","content":"c"}`, "Pre Post | bytes | ~file_path"},
		{"write home", "Write", `{"file_path":"~/d.txt","content":"d"}`, "Pre Post | bytes | ~file_path"},
		{"write unread", "Write", `{"file_path":` + file("n.ipynb") + `,"content":"b"}`, unasked},
		{"notebook read", "Read", `{"file_path":` + file("n.ipynb") + `}`, ""},
		{"notebook", "NotebookEdit", `{"notebook_path":` + file("n.ipynb") + `,"cell_id":"c1","new_source":"2"}`, ""},
		{"skill", "Skill", `{"skill":"note"}`, ""},
		{"skill unknown", "Skill", `{"skill":"nothing"}`, unasked},
		{"toolsearch", "ToolSearch", `{"query":"select:Monitor"}`, "Pre Post | bytes | +max_results"},
		{"monitor", "Monitor", `{"description":"m","command":"true","timeout_ms":1000}`, ""},
		{"workflow", "Workflow", `{"script":"export const meta = {name:'w',description:'d'};\nreturn 1"}`, ""},
		{"cron create", "CronCreate", `{"cron":"0 0 1 1 *","prompt":"p"}`, ""},
		{"cron list", "CronList", `{}`, ""},
		{"cron delete unknown", "CronDelete", `{"id":"none"}`, unasked},
		{"wakeup", "ScheduleWakeup", `{"delaySeconds":3600,"reason":"r","prompt":"p"}`, ""},
		{"send", "SendMessage", `{"to":"main","summary":"s","message":"m"}`, "Pre Post | differs -content -recipient -recipient_kind -type | +content +recipient +recipient_kind +type"},
		{"findings", "ReportFindings", `{"level":"low","findings":[]}`, ""},
		{"agents", "ListAgents", `{}`, ""},
		{"task stop unknown", "TaskStop", `{"task_id":"none"}`, unasked},
		{"web fetch", "WebFetch", `{"url":"http://127.0.0.1:1/x","prompt":"p"}`, "Pre PostFailure | bytes | same"},
		{"web search", "WebSearch", `{"query":"q words"}`, ""},
		{"agent", "Agent", `{"description":"help","prompt":"HELPER: go","subagent_type":"general-purpose","run_in_background":false}`, ""},
		{"task", "Task", `{"description":"help","prompt":"HELPER: go","subagent_type":"general-purpose","run_in_background":false}`, ""},
		{"agent unknown type", "Agent", `{"description":"help","prompt":"HELPER: go","subagent_type":"nobody"}`, "Pre PostFailure | bytes | same"},
		{"mcp", "mcp__stub__act", `{"vm_name":"app-01"}`, ""},
		{"mcp numbers", "mcp__stub__act", `{"n":1.0,"e":1e2,"big":12345678901234567890,"neg":-0}`, ""},
		{"mcp text", "mcp__stub__act", `{"t":"\u00e9\u2028\ud83d\ude00\/ <&>","lone":"\ud800","z":{"b":1,"a":2}}`, ""},
		{"mcp doubled key", "mcp__stub__act", `{"vm_name":"safe","vm_name":"app-01"}`, ""},
		{"mcp proto key", "mcp__stub__act", `{"__proto__":{"x":1},"2":"b","1":"a"}`, "Pre Post | bytes | -__proto__"},
		{"mcp fails", "mcp__stub__act_fails", `{"a":1}`, "Pre PostFailure | bytes | same"},
		{"mcp unknown tool", "mcp__stub__nothing", `{}`, unasked},
		{"unknown tool", "Glob", `{"pattern":"*"}`, unasked},
		{"wrong case", "bash", `{"command":"true"}`, unasked},
		{"question", "AskUserQuestion", `{"questions":[{"question":"q?","header":"h","options":[{"label":"a","description":"x"},{"label":"b","description":"y"}],"multiSelect":false}]}`, unasked},
		{"exit plan", "ExitPlanMode", `{}`, unasked},
	}
}

// drive makes all calls, each in a turn of its own, with a hook that denies
// calls of one tool.
func (w *world) drive(probes []probe, deny string, args ...string) {
	w.t.Helper()
	var steps []fakemodel.Step
	for _, p := range probes {
		steps = append(steps, p.step())
	}
	w.script(fakemodel.Script{Steps: steps, Others: []fakemodel.Conversation{
		{Name: "helper", Match: fakemodel.Prompted("HELPER:")},
		// The client searches the web by asking a model that has this one tool.
		{Name: "search", Match: func(r *fakemodel.Request) bool { return len(r.Tools) == 1 && r.Offers("web_search") }},
	}})
	// A cron entry and a wake-up keep an unattended client waiting for their time.
	w.Until = func() bool { return len(w.hooks("Stop")) > 0 }
	w.run(append([]string{
		"--settings=" + w.watch(deny, reason), "--setting-sources=project", "--strict-mcp-config", "--mcp-config=" + w.mcp("stub", "act", "act_fails"),
	}, args...)...)
}

// TestMeasureInputs compares what the hooks before and after a call are given,
// for every tool of an unattended run.
func TestMeasureInputs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	probes := w.calls()
	w.drive(probes, "")
	w.report(probes)

	// What an MCP server is called with is what the hook saw, not what the model
	// said: numbers and doubled keys went through the client's JSON parser.
	var seen [][]byte
	for _, p := range probes {
		if m := w.measure(p); p.tool == "mcp__stub__act" {
			seen = append(seen, m.pre.Input)
		}
	}
	if got := w.records("mcp-act"); !slices.EqualFunc(got, seen, func(a, b []byte) bool { return jsonEqual(t, a, b) }) {
		t.Errorf("the server was called with\n%s\nthe hook saw\n%s", got, seen)
	}
	m := w.measure(probe{name: "mcp numbers"})
	if want := `{"n":1,"e":100,"big":12345678901234567000,"neg":0}`; string(m.pre.Input) != want {
		t.Errorf("numbers arrive as %s, want %s", m.pre.Input, want)
	}
	for name, want := range map[string]string{"write new": `"content":"b\r\n"`, "edit trailing space": `"new_string":"zwei\n"`} {
		if m := w.measure(probe{name: name}); !strings.Contains(string(m.pre.Input), want) {
			t.Errorf("%s arrives as %s, want %s", name, m.pre.Input, want)
		}
	}
	if !slices.ContainsFunc(w.hooks("UserPromptSubmit"), func(e event) bool {
		return strings.Contains(string(e.Raw), "<tool-use-id>toolu_bash_background</tool-use-id>")
	}) {
		t.Error("no background call's end was told")
	}
	if m = w.measure(probe{name: "mcp doubled key"}); string(m.pre.Input) != `{"vm_name":"app-01"}` {
		t.Errorf("the last of two equal keys counts, not %s", m.pre.Input)
	}
	if m = w.measure(probe{name: "mcp text"}); !strings.Contains(string(m.pre.Raw), `"lone":"\ud800"`) {
		t.Errorf("half a surrogate pair arrives as %s", m.pre.Input)
	}
}

// TestMeasureDeniedCalls: after a denied call nothing fires that names it, but
// the batch of its turn.
func TestMeasureDeniedCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	probes := w.calls()
	for i, p := range probes {
		switch p.name {
		case "edit": // the text that it replaces is still there
			probes[i].want = "Pre | - | +replace_all"
		case "notebook": // nobody has read it
			probes[i].want = unasked
		default:
			if p.want != unasked {
				probes[i].want = "Pre | - | " + changed(p.want)
			}
		}
	}
	w.drive(probes, "*")
	w.report(probes)
	// The batch of a turn names all its calls, also those that never ran.
	if n := len(w.hooks("PostToolBatch")); n != len(probes) {
		t.Errorf("%d batches for %d calls", n, len(probes))
	}
	if first := w.hooks("PostToolBatch")[0]; !strings.Contains(string(first.Raw), `"tool_use_id":"toolu_bash","tool_response":"PreToolUse:Bash hook error: `+reason+`"`) {
		t.Errorf("the first batch is %s", first.Raw)
	}
	for _, e := range w.hooks("PermissionDenied", "PermissionRequest", "PostToolUse", "PostToolUseFailure") {
		t.Errorf("fired after denials: %s", e.Raw)
	}
}

func changed(want string) string {
	parts := strings.Split(want, " | ")
	if len(parts) < 3 {
		return "same"
	}
	return parts[2]
}

// TestMeasureHostRefuses: a call that the gate lets pass, and that the client's
// own permissions then refuse, has nothing after its PreToolUse either.
func TestMeasureHostRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	probes := []probe{{"refused", "Bash", w.touch(), "Pre | - | same"}}
	w.steps(probes[0].step())
	w.ok(w.runAs("-p", "go", "--settings="+w.watch("", ""), "--setting-sources="))
	w.report(probes)
	if asked := w.hooks("PermissionRequest"); len(asked) != 1 || asked[0].Tool != "Bash" || asked[0].ToolUse != "" {
		t.Errorf("PermissionRequest of %+v", asked)
	}
	if w.marked() || !strings.HasPrefix(w.told("toolu_refused"), "error: ") {
		t.Errorf("marked %v, told %q", w.marked(), w.told("toolu_refused"))
	}
}

// TestMeasureRewritingHook: the hook before the call has the model's input, the
// one after it has what another hook made of it, and that is what ran.
func TestMeasureRewritingHook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(w.Project+"/.claude/settings.json", object{"hooks": object{"PreToolUse": []any{object{"hooks": []any{object{
		"type": "command", "command": self, "args": []string{"play-rewrite", w.touch()},
	}}}}}})
	probes := []probe{{"rewritten", "Bash", `{"command":"true"}`, "Pre Post | differs ~command | same"}}
	w.drive(probes, "")
	w.report(probes)
	if m := w.measure(probes[0]); !w.marked() || string(m.end.Input) != w.touch() {
		t.Errorf("marked %v; PostToolUse has %s", w.marked(), m.end.Raw)
	}
}

// find makes a call whose input has a word that the client said before.
func find(p probe, pattern string) fakemodel.Step {
	return func(_ context.Context, r *fakemodel.Request) (fakemodel.Turn, error) {
		m, err := r.Find(regexp.MustCompile(pattern))
		if err != nil {
			return fakemodel.Turn{}, err
		}
		return fakemodel.Turn{Calls: []fakemodel.Call{{ID: p.id(), Name: p.tool, Input: strings.ReplaceAll(p.input, "WORD", m[0])}}}, nil
	}
}

// TestMeasureFollowUps drives tools that need what another one made.
func TestMeasureFollowUps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	git := exec.Command("git", "-c", "user.name=n", "-c", "user.email=e@localhost", "commit", "-q", "--allow-empty", "-m", "first")
	for _, cmd := range []*exec.Cmd{exec.Command("git", "init", "-q"), git} {
		cmd.Dir, cmd.Env = w.Project, []string{"HOME=" + w.Home, "PATH=/usr/local/bin:/usr/bin:/bin"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd, err, out)
		}
	}
	probes := []probe{
		{"background", "Bash", `{"command":"sleep 60","run_in_background":true}`, ""},
		{"stop", "TaskStop", `{"task_id":"WORD"}`, "Pre Post | bytes | ~task_id"},
		{"cron", "CronCreate", `{"cron":"0 0 1 1 *","prompt":"p"}`, ""},
		{"uncron", "CronDelete", `{"id":"WORD"}`, "Pre Post | bytes | ~id"},
		{"enter", "EnterWorktree", `{"name":"tree"}`, ""},
		{"inside", "Bash", `{"command":"pwd"}`, ""},
		{"exit", "ExitWorktree", `{"action":"remove"}`, ""},
		{"exit again", "ExitWorktree", `{"action":"remove"}`, unasked},
	}
	w.steps(probes[0].step(), find(probes[1], `background with ID: (\w+)`), probes[2].step(), find(probes[3], `recurring job (\w+)`),
		probes[4].step(), probes[5].step(), probes[6].step(), probes[7].step())
	w.ok(w.run("--settings="+w.watch("", ""), "--setting-sources="))
	w.report(probes)
	if got := w.told("toolu_inside"); !strings.Contains(got, "/.claude/worktrees/tree") {
		t.Errorf("inside the worktree pwd says %q", got)
	}
}

// TestMeasureRestricted: Glob and Grep exist in restricted mode alone, and are
// hooked there.
func TestMeasureRestricted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	probes := []probe{{"glob", "Glob", `{"pattern":"*"}`, ""}, {"grep", "Grep", `{"pattern":"x"}`, ""}}
	w.steps(probes[0].step(), probes[1].step())
	w.ok(w.runAs("-p", "go", "--restricted", "--settings="+w.watch("", ""), "--setting-sources="))
	w.report(probes)
}

// TestMeasureSkillShell: a skill's own shell lines are asked about by an event of
// their own, and nothing tells that they ran.
func TestMeasureSkillShell(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(w.Project+"/.claude/skills/run/SKILL.md", "---\nname: run\ndescription: runs\n---\nNow: !`touch "+w.Marker+"`\n")
	w.steps(probe{name: "skill", tool: "Skill", input: `{"skill":"run"}`}.step())
	w.ok(w.run("--settings="+w.watch("", ""), "--setting-sources=project"))
	var got []string
	for _, e := range w.hooks() {
		if strings.HasPrefix(e.ToolUse, "toolu_skill") {
			got = append(got, e.Name+" "+e.Tool+" "+e.ToolUse+" "+string(e.Input))
		}
	}
	want := []string{
		`PreToolUse Skill toolu_skill {"skill":"run"}`, `PreSkillShellCommand Bash toolu_skill:preamble-0 {"command":"touch ` + w.Marker + `"}`,
		`PostToolUse Skill toolu_skill {"skill":"run"}`,
	}
	if !w.marked() || !slices.Equal(got, want) {
		t.Errorf("marked %v, hooks\n%q, want\n%q", w.marked(), got, want)
	}
}

// TestMeasurePayloads lists the fields of the events of a call.
func TestMeasurePayloads(t *testing.T) {
	t.Parallel()
	const common = "cwd effort hook_event_name permission_mode prompt_id session_id "
	want := map[string]string{
		"PreToolUse":         common + "tool_input tool_name tool_use_id transcript_path",
		"PostToolUse":        "cwd duration_ms effort hook_event_name permission_mode prompt_id session_id tool_input tool_name tool_response tool_use_id transcript_path",
		"PostToolUseFailure": "cwd duration_ms effort error hook_event_name is_interrupt permission_mode prompt_id session_id tool_input tool_name tool_use_id transcript_path",
		"PostToolBatch":      common + "tool_calls transcript_path",
	}
	w := newWorld(t)
	w.steps(fakemodel.UseAll(fakemodel.Call{Name: "Bash", Input: `{"command":"true"}`}, fakemodel.Call{Name: "Bash", Input: `{"command":"exit 3"}`}))
	w.ok(w.run("--settings="+w.watch("", ""), "--setting-sources="))
	for name, fields := range want {
		all := w.hooks(name)
		if len(all) == 0 {
			t.Errorf("no %s", name)
			continue
		}
		if got := keys(t, all[0].Raw); got != fields {
			t.Errorf("%s has\n%s, want\n%s", name, got, fields)
		}
	}
}
