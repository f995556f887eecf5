//go:build hosts

package hosts

import (
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/fakemodel"
)

// freely lets every tool pass under a lease.
const freely = "[checkpoint]\nself = \"none\"\nunlisted = \"allow\"\n"

// quiet demands a session that still holds its lease, and nothing in the record
// that says that a call ran other than it was judged.
func (g *guarded) quiet(s func() (state, alarm string), completed ...string) {
	g.t.Helper()
	if state, alarm := s(); state != "VERIFIED" || alarm != "" {
		g.t.Errorf("at the end the session is %s, alarm %q", state, alarm)
	}
	for _, r := range g.logged(func(r audit.Record) bool { return r.Event == audit.EventAlarm || r.Event == audit.EventHost }) {
		known := r.Code == "observed" || r.Code == "completed_in_host" && slices.Contains(completed, r.Tool)
		if r.Event == audit.EventAlarm || !known {
			g.t.Errorf("%s of %s %s (%s)", r.Code, r.HookEvent, r.Tool, r.ToolUse)
		}
	}
}

// TestNoFalseAlarm makes every call that an unattended run can make under one
// lease: none of them is taken for an attack, and none costs the lease.
func TestNoFalseAlarm(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, freely)
	probes := g.calls()
	steps := []fakemodel.Step{between(g.approve, probes[0].step())}
	for _, p := range probes[1:] {
		steps = append(steps, p.step())
	}
	git := exec.Command("sh", "-c", "git init -q && git -c user.name=n -c user.email=e@localhost commit -q --allow-empty -m first")
	git.Dir, git.Env = g.Project, []string{"HOME=" + g.Home, "PATH=/usr/local/bin:/usr/bin:/bin"}
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	follow := []probe{
		{"f background", "Bash", `{"command":"sleep 60","run_in_background":true}`, ""}, {"f stop", "TaskStop", `{"task_id":"WORD"}`, ""},
		{"f cron", "CronCreate", `{"cron":"0 0 1 1 *","prompt":"p"}`, ""}, {"f uncron", "CronDelete", `{"id":"WORD"}`, ""},
		{"f enter", "EnterWorktree", `{"name":"tree"}`, ""}, {"f inside", "Bash", `{"command":"cd sub 2>/dev/null; cd ..; pwd"}`, ""},
		{"f exit", "ExitWorktree", `{"action":"remove"}`, ""},
	}
	for _, p := range follow {
		switch p.tool {
		case "TaskStop":
			steps = append(steps, find(p, `background with ID: (\w+)`))
		case "CronDelete":
			steps = append(steps, find(p, `recurring job (\w+)`))
		default:
			steps = append(steps, p.step())
		}
	}
	var done atomic.Bool
	var state, alarm string
	steps = append(steps, between(func() {
		s := g.session()
		state, alarm = s.State, s.Alarm
		done.Store(true)
	}, fakemodel.Say("all done")))
	g.script(fakemodel.Script{Steps: steps, Others: []fakemodel.Conversation{
		{Name: "helper", Match: fakemodel.Prompted("HELPER:")},
		{Name: "search", Match: func(r *fakemodel.Request) bool { return len(r.Tools) == 1 && r.Offers("web_search") }},
	}})
	g.userServers(object{"stub": g.stub("act", "act_fails")})
	g.Until = done.Load // a cron entry and a wake-up keep the client waiting
	g.launch()
	g.quiet(func() (string, string) { return state, alarm }, "SendMessage")
	g.ranAll(append(probes, follow...))
}

// ranAll holds the record to what was measured without guard: each call that has
// hooks was asked and passed, and told of when it ran.
func (g *guarded) ranAll(probes []probe) {
	g.t.Helper()
	asked, ran := map[string]string{}, map[string]bool{}
	for _, r := range g.logged(func(r audit.Record) bool { return r.Tool != "" }) {
		switch r.HookEvent {
		case "PreToolUse":
			asked[r.ToolUse] = r.Verdict + " " + r.Code
		case "PostToolUse", "PostToolUseFailure":
			ran[r.ToolUse] = true
		}
	}
	for _, p := range probes {
		want, after := "pass", true
		switch {
		case p.want == unasked, p.tool == "Skill": // nobody's skills are loaded
			want, after = "", false
		case p.name == "mcp text": // half a surrogate pair is no UTF-8
			want, after = "", false
		}
		got := asked[p.id()]
		if !strings.HasPrefix(got, want) || (got == "") != (want == "") || ran[p.id()] != after {
			g.t.Errorf("%s: asked with %q, ran %v, want %q and %v; the model was told %.200q", p.name, got, ran[p.id()], want, after, g.told(p.id()))
		}
	}
}

// TestNoFalseAlarmOfAPerson: the tools that a person completes or consents to.
func TestNoFalseAlarmOfAPerson(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, freely)
	probes := []probe{
		{"question", "AskUserQuestion", question, ""},
		{"bash", "Bash", g.touch(), ""},
		{"write", "Write", `{"file_path":"it","content":"x"}`, ""},
		{"plan", "EnterPlanMode", `{}`, ""},
		{"draft", "Write", `{"file_path":"WORD","content":"the plan"}`, ""},
		{"leave", "ExitPlanMode", `{}`, ""},
	}
	var steps []fakemodel.Step
	for _, p := range probes {
		if p.name == "draft" {
			steps = append(steps, find(p, plans))
			continue
		}
		steps = append(steps, p.step())
	}
	var done atomic.Bool
	g.steps(append(steps, between(func() { done.Store(true) }, fakemodel.Say("all done")))...)
	x := g.atTerminal("--permission-mode=default")
	g.approve()
	x.enter("do it")
	x.shown("1. alpha")
	x.press("\r", "the end of the turn", done.Load)
	s := g.session()
	g.quiet(func() (string, string) { return s.State, s.Alarm }, "AskUserQuestion", "ExitPlanMode")
	g.ranAll(probes)
}
