//go:build hosts

package hosts

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/fakemodel"
)

// probe is one tool call whose hooks are measured.
type probe struct {
	name, tool, input string
	want              string // as measure says it
}

// id is the probe's tool_use id, by which its hooks are found.
func (p probe) id() string { return "toolu_" + strings.ReplaceAll(p.name, " ", "_") }

// step makes the call.
func (p probe) step() fakemodel.Step {
	return fakemodel.UseAll(fakemodel.Call{ID: p.id(), Name: p.tool, Input: p.input})
}

// measured is what the hooks of one call were given.
type measured struct {
	events   []string // in order, without the PreToolUse part of the name
	bytes    string   // how the inputs of Pre and Post compare
	added    string   // keys that the hook has and the model didn't send, and the reverse
	told     string
	pre, end *event
}

// measure gathers the hooks of a call.
func (w *world) measure(p probe) measured {
	w.t.Helper()
	m := measured{bytes: "-", added: "-"}
	for _, e := range w.hooks() {
		if e.ToolUse != p.id() {
			continue
		}
		m.events = append(m.events, strings.TrimSuffix(e.Name, "ToolUse"))
		switch e.Name {
		case "PreToolUse":
			m.pre = &e
		case "PostToolUse", "PostToolUseFailure":
			m.end = &e
		}
	}
	if m.pre != nil {
		m.added = keyChange(w.t, []byte(p.input), m.pre.Input)
	}
	if m.pre != nil && m.end != nil {
		switch {
		case slices.Equal(m.pre.Input, m.end.Input):
			m.bytes = "bytes"
		case jsonEqual(w.t, m.pre.Input, m.end.Input):
			m.bytes = "JSON"
		default:
			m.bytes = "differs " + keyChange(w.t, m.pre.Input, m.end.Input)
		}
	}
	for _, r := range w.Model.Results() {
		if r.ID == p.id() {
			m.told = "ok: " + r.Text
			if r.IsError {
				m.told = "error: " + r.Text
			}
		}
	}
	return m
}

// String is the measurement in one line.
func (m measured) String() string {
	return fmt.Sprintf("%s | %s | %s", strings.Join(m.events, " "), m.bytes, m.added)
}

// keyChange names the top-level keys by which b differs from a.
func keyChange(t *testing.T, a, b []byte) string {
	t.Helper()
	var x, y map[string]jsontext.Value
	if json.Unmarshal(a, &x, lenient, jsontext.AllowDuplicateNames(true)) != nil {
		return "no JSON"
	}
	must(t, json.Unmarshal(b, &y, lenient))
	var out []string
	for k, v := range y {
		switch old, ok := x[k]; {
		case !ok:
			out = append(out, "+"+k)
		case !slices.Equal(old, v) && !jsonEqual(t, old, v):
			out = append(out, "~"+k)
		}
	}
	for k := range x {
		if _, ok := y[k]; !ok {
			out = append(out, "-"+k)
		}
	}
	if len(out) == 0 {
		return "same"
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// report prints the table and holds each line to what was measured before.
func (w *world) report(probes []probe) {
	w.t.Helper()
	for _, p := range probes {
		m := w.measure(p)
		w.t.Logf("| %s | %s | %s | %.110q", p.tool, p.name, m, m.told)
		if p.want != "" && m.String() != p.want {
			w.t.Errorf("%s: measured\n%s, want\n%s", p.name, m, p.want)
		}
	}
}

// TestMeasureInputs drives every tool of an unattended run.
func TestMeasureInputs(t *testing.T) {
	w := newWorld(t)
	w.write(w.Project+"/a.txt", "one\ntwo\n")
	w.write(w.Project+"/n.ipynb", `{"cells":[{"cell_type":"code","id":"c1","metadata":{},"source":["1"],"outputs":[],"execution_count":null}],"metadata":{},"nbformat":4,"nbformat_minor":5}`)
	w.write(w.Project+"/.claude/skills/note/SKILL.md", "---\nname: note\ndescription: a note\n---\nThink of it.\n")
	file := func(name string) string { return string(toJSON(t, w.Project+"/"+name)) }
	probes := []probe{
		{"bash", "Bash", `{"command":"true"}`, ""},
		{"bash with spaces", "Bash", `{ "description" : "d",  "command":"tr\u0075e" }`, ""},
		{"bash doubled key", "Bash", `{"command":"false","command":"true"}`, ""},
		{"bash unknown key", "Bash", `{"command":"true","zeal":1}`, ""},
		{"bash number as text", "Bash", `{"command":"true","timeout":"5000"}`, ""},
		{"bash timeout", "Bash", `{"command":"true","timeout":5000}`, ""},
		{"bash background", "Bash", `{"command":"true","run_in_background":true}`, ""},
		{"bash cd", "Bash", `{"command":"cd ` + w.Project + ` && true"}`, ""},
		{"bash exit 3", "Bash", `{"command":"echo out; exit 3"}`, ""},
		{"bash timed out", "Bash", `{"command":"sleep 20","timeout":300}`, ""},
		{"bash no command", "Bash", `{"description":"d"}`, ""},
		{"bash command a number", "Bash", `{"command":7}`, ""},
		{"bash null", "Bash", `{"command":"true","description":null}`, ""},
		{"broken json", "Bash", `{"command":"true"`, ""},
		{"array input", "Bash", `["true"]`, ""},
		{"edit unread", "Edit", `{"file_path":` + file("a.txt") + `,"old_string":"one","new_string":"eins"}`, ""},
		{"read", "Read", `{"file_path":` + file("a.txt") + `}`, ""},
		{"read relative", "Read", `{"file_path":"a.txt"}`, ""},
		{"read limit as text", "Read", `{"file_path":` + file("a.txt") + `,"limit":"1"}`, ""},
		{"read missing", "Read", `{"file_path":` + file("none") + `}`, ""},
		{"edit", "Edit", `{"file_path":` + file("a.txt") + `,"old_string":"one","new_string":"eins"}`, ""},
		{"edit trailing space", "Edit", `{"file_path":` + file("a.txt") + `,"old_string":"two","new_string":"zwei  \n"}`, ""},
		{"edit no match", "Edit", `{"file_path":` + file("a.txt") + `,"old_string":"nine","new_string":"neun"}`, ""},
		{"edit same", "Edit", `{"file_path":` + file("a.txt") + `,"old_string":"eins","new_string":"eins"}`, ""},
		{"write new", "Write", `{"file_path":` + file("b.txt") + `,"content":"b  \r\n"}`, ""},
		{"write relative", "Write", `{"file_path":"c.txt","content":"c"}`, ""},
		{"write home", "Write", `{"file_path":"~/d.txt","content":"d"}`, ""},
		{"write unread", "Write", `{"file_path":` + file("n.ipynb") + `,"content":"b"}`, ""},
		{"notebook read", "Read", `{"file_path":` + file("n.ipynb") + `}`, ""},
		{"notebook", "NotebookEdit", `{"notebook_path":` + file("n.ipynb") + `,"cell_id":"c1","new_source":"2"}`, ""},
		{"skill", "Skill", `{"skill":"note"}`, ""},
		{"skill unknown", "Skill", `{"skill":"nothing"}`, ""},
		{"toolsearch", "ToolSearch", `{"query":"select:Monitor"}`, ""},
		{"monitor", "Monitor", `{"description":"m","command":"true","timeout_ms":1000}`, ""},
		{"workflow", "Workflow", `{"script":"export const meta = {name:'w',description:'d'};\nreturn 1"}`, ""},
		{"cron create", "CronCreate", `{"cron":"0 0 1 1 *","prompt":"p"}`, ""},
		{"cron list", "CronList", `{}`, ""},
		{"cron delete unknown", "CronDelete", `{"id":"none"}`, ""},
		{"wakeup", "ScheduleWakeup", `{"delaySeconds":3600,"reason":"r","prompt":"p"}`, ""},
		{"send", "SendMessage", `{"to":"main","summary":"s","message":"m"}`, ""},
		{"findings", "ReportFindings", `{"level":"low","findings":[]}`, ""},
		{"agents", "ListAgents", `{}`, ""},
		{"task stop unknown", "TaskStop", `{"task_id":"none"}`, ""},
		{"web fetch", "WebFetch", `{"url":"http://127.0.0.1:1/x","prompt":"p"}`, ""},
		{"web search", "WebSearch", `{"query":"q words"}`, ""},
		{"agent", "Agent", `{"description":"help","prompt":"HELPER: go","subagent_type":"general-purpose","run_in_background":false}`, ""},
		{"task", "Task", `{"description":"help","prompt":"HELPER: go","subagent_type":"general-purpose","run_in_background":false}`, ""},
		{"agent unknown type", "Agent", `{"description":"help","prompt":"HELPER: go","subagent_type":"nobody"}`, ""},
		{"mcp", "mcp__stub__act", `{"vm_name":"app-01"}`, ""},
		{"mcp numbers", "mcp__stub__act", `{"n":1.0,"e":1e2,"big":12345678901234567890,"neg":-0}`, ""},
		{"mcp text", "mcp__stub__act", `{"t":"\u00e9\u2028\ud83d\ude00\/ <&>","lone":"\ud800","z":{"b":1,"a":2}}`, ""},
		{"mcp doubled key", "mcp__stub__act", `{"vm_name":"safe","vm_name":"app-01"}`, ""},
		{"mcp proto key", "mcp__stub__act", `{"__proto__":{"x":1},"2":"b","1":"a"}`, ""},
		{"mcp fails", "mcp__stub__act_fails", `{"a":1}`, ""},
		{"mcp unknown tool", "mcp__stub__nothing", `{}`, ""},
		{"unknown tool", "Glob", `{"pattern":"*"}`, ""},
		{"wrong case", "bash", `{"command":"true"}`, ""},
		{"question", "AskUserQuestion", `{"questions":[{"question":"q?","header":"h","options":[{"label":"a","description":"x"},{"label":"b","description":"y"}],"multiSelect":false}]}`, ""},
		{"exit plan", "ExitPlanMode", `{}`, ""},
	}
	var steps []fakemodel.Step
	for _, p := range probes {
		steps = append(steps, p.step())
	}
	w.script(fakemodel.Script{Steps: steps, Others: []fakemodel.Conversation{compaction(), {Name: "helper", Match: fakemodel.Prompted("HELPER:")}}})
	// A cron entry and a wake-up keep an unattended client waiting for their time.
	w.Until = func() bool { return len(w.hooks("Stop")) > 0 }
	w.run("--settings="+w.watch("", ""), "--setting-sources=project", "--strict-mcp-config", "--mcp-config="+w.mcp("stub", "act", "act_fails"))
	w.report(probes)
	_ = exec.Command
}
