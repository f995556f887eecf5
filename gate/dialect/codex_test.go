package dialect

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// As codex-cli 0.171.0 sends it.
const codexBash = `{"session_id":"c1","turn_id":"t1","transcript_path":"/h/r.jsonl","cwd":"/w","hook_event_name":"PreToolUse","model":"gpt-5.5",` +
	`"permission_mode":"bypassPermissions","tool_name":"Bash","tool_input":{"command":"touch x"},"tool_use_id":"call_1"}`

func codexEvent(name, more string) string {
	return `{"session_id":"c1","turn_id":"t1","transcript_path":null,"cwd":"/w","hook_event_name":"` + name + `","model":"m","permission_mode":"default"` + more + `}`
}

// TestS5_CodexTools: nothing reads without a lease, and a name that isn't on a
// list is the catalog's affair.
func TestS5_CodexTools(t *testing.T) {
	for kind, names := range map[string]string{
		"self": "Bash apply_patch",
		"lease only": "spawn_agent multi_agent_v1wait_agent multi_agent_v1close_agent multi_agent_v1resume_agent multi_agent_v1send_input " +
			"collaborationspawn_agent collaborationwait_agent collaborationlist_agents collaborationsend_message collaborationfollowup_task collaborationinterrupt_agent " +
			"view_image get_goal create_goal update_goal list_mcp_resources list_mcp_resource_templates read_mcp_resource " +
			"request_user_input request_user_input_async send_message_to_user_async tool_search clockcurr_time clocksleep",
		"none": "wait_agent list_agents bash Bash\x00 exec exec_command write_stdin web_search update_plan Read Grep read Monitor BashOutput KillShell REPL Skill mcp__blender__execute_code",
	} {
		for _, name := range strings.Split(names, " ") {
			want := map[string]BuiltinKind{"self": ChangesSelf, "lease only": LeaseOnlyTool}[kind]
			if Classify(wire.HostCodex, name) != Mutator || Builtin(wire.HostCodex, name) != want {
				t.Errorf("%q: class %d, built-in %d, want %d", name, Classify(wire.HostCodex, name), Builtin(wire.HostCodex, name), want)
			}
		}
	}
	if Asks(wire.HostCodex) || Completes(wire.HostCodex, "request_user_input") {
		t.Error("Codex asks, or completes")
	}
}

func TestCodexEvents(t *testing.T) {
	const tool = `,"tool_name":"Bash","tool_input":{"command":"id"},"tool_use_id":"call_1","tool_response":"x"`
	for name, known := range codexEvents {
		for _, role := range []wire.Role{wire.RoleNone, wire.RoleDecide, wire.RoleObserve, 9} {
			_, err := Parse(wire.HostCodex, role, []byte(codexEvent(name, tool)))
			if fits := role == known.role; fits != (err == nil) {
				t.Errorf("%s in role %d: error %v", name, role, err)
			}
		}
		ev, err := Parse(wire.HostCodex, known.role, []byte(codexEvent(name, tool+`,"source":"startup"`)))
		if err != nil || ev.Ran() != (name == "PostToolUse") || ev.Leaves() || ev.Greets() {
			t.Errorf("%s is taken for another event, %v", name, err)
		}
		if _, lost := ev.LostContext(); lost != strings.HasSuffix(name, "Compact") {
			t.Errorf("%s loses context: %v", name, lost)
		}
	}
	for _, source := range []string{"compact", "resume", "clear", "", "teleport2027"} {
		ev, err := Parse(wire.HostCodex, wire.RoleObserve, []byte(codexEvent("SessionStart", `,"source":"`+source+`"`)))
		if _, lost := ev.LostContext(); !lost || err != nil {
			t.Errorf("a session start by %q loses nothing, %v", source, err)
		}
	}
	for _, name := range []string{"ConfigChange", "PreSkillShellCommand", "PermissionRequest", "Stop", "tool_call", ""} {
		if _, err := Parse(wire.HostCodex, wire.RoleDecide, []byte(codexEvent(name, tool))); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q is taken for an event of Codex: %v", name, err)
		}
	}
}

func TestParseCodex(t *testing.T) {
	want := Event{Kind: ToolCall, Name: "PreToolUse", HostSession: "c1", Tool: "Bash", Input: []byte(`{"command":"touch x"}`),
		ToolUse: "call_1", Cwd: "/w", Turn: "t1", Mode: "bypassPermissions", Model: "gpt-5.5"}
	got, err := Parse(wire.HostCodex, wire.RoleDecide, []byte(codexBash))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	child := strings.Replace(codexBash, `"cwd"`, `"agent_id":"a1","agent_type":"explorer","cwd"`, 1)
	want.Agent, want.AgentType = "a1", "explorer"
	got, err = Parse(wire.HostCodex, wire.RoleDecide, []byte(child))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for name, payload := range map[string]string{
		"P1: two objects": codexBash + codexBash, "P5: other case": strings.Replace(codexBash, `"cwd"`, `"TOOL_NAME":"x","cwd"`, 1),
		"no input": codexEvent("PreToolUse", `,"tool_name":"Bash"`), "input is a text": codexEvent("PreToolUse", `,"tool_name":"Bash","tool_input":"x"`),
		"no tool": codexEvent("PreToolUse", `,"tool_input":{}`), "nothing": "", "no object": "[]",
	} {
		if ev, err := Parse(wire.HostCodex, wire.RoleDecide, []byte(payload)); err == nil || ev.Kind != Unknown {
			t.Errorf("%s: %+v, %v", name, ev, err)
		}
	}
}

// TestF5_CodexAnswers: stdout is one document, and only a pass has status 0. The
// forms are those that the client was measured to take (docs/hosts.md).
func TestF5_CodexAnswers(t *testing.T) {
	call, prompt := Event{Kind: ToolCall, Name: "PreToolUse"}, Event{Kind: Prompt, Name: "UserPromptSubmit"}
	const denies = `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":`
	for name, tc := range map[string]struct {
		ev       Event
		v        verdict.Verdict
		out, err string
	}{
		"pass":             {call, verdict.Verdict{Kind: verdict.Pass}, `{}`, ""},
		"pass and context": {call, verdict.Verdict{Kind: verdict.Pass, Context: saved}, `{"hookSpecificOutput":{"hookEventName":"PreToolUse","additionalContext":"guard: \"app-01\" can be rewound"}}`, ""},
		"deny":             {call, verdict.Verdict{Reason: denied}, denies + jsonDenied + `}}`, denied + "\n"},
		"ask becomes deny": {call, verdict.Verdict{Kind: verdict.Ask, Reason: asked}, denies + jsonAsked + `}}`, asked + "\n"},
		"prompt passes":    {prompt, verdict.Verdict{Kind: verdict.Pass}, `{}`, ""},
		"prompt is denied": {prompt, verdict.Verdict{Reason: denied}, `{"decision":"block","reason":` + jsonDenied + `}`, denied + "\n"},
		"ask of a prompt":  {prompt, verdict.Verdict{Kind: verdict.Ask, Reason: asked}, `{"decision":"block","reason":` + jsonAsked + `}`, asked + "\n"},
	} {
		r := Render(wire.HostCodex, wire.RoleDecide, tc.ev, tc.v)
		if string(r.Out) != tc.out || string(r.Err) != tc.err || (r.Exit == exitDeny) != (tc.err != "") {
			t.Errorf("%s: status %d, stdout %s, stderr %q", name, r.Exit, r.Out, r.Err)
		}
	}
	for kind := Unknown; kind <= Observer+1; kind++ {
		for _, v := range everyVerdict {
			r := Render(wire.HostCodex, wire.RoleDecide, Event{Kind: kind, Name: "PreToolUse"}, v)
			if passes := v.Kind == verdict.Pass && (kind == ToolCall || kind == Prompt); (r.Exit == 0) != passes || !passes && len(r.Err) < 2 {
				t.Errorf("kind %d, %+v: status %d, stderr %q", kind, v, r.Exit, r.Err)
			}
		}
	}
}

func FuzzParseCodex(f *testing.F) {
	for _, s := range []string{codexBash, codexEvent("SessionStart", `,"source":"compact"`), codexEvent("PreCompact", `,"trigger":"auto"`), bash, piBash} {
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, payload []byte, decide bool) {
		role := wire.RoleObserve
		if decide {
			role = wire.RoleDecide
		}
		ev, err := Parse(wire.HostCodex, role, payload)
		if err != nil && (ev.Kind != Unknown || !errors.Is(err, ErrMalformed) && !errors.Is(err, strictjson.ErrMalformed)) {
			t.Fatalf("event %+v with error %v", ev, err)
		}
		for _, v := range everyVerdict {
			if v.Kind != verdict.Ask {
				checkReply(t, role, ev, v, Render(wire.HostCodex, role, ev, v))
			}
		}
	})
}
