package dialect

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/wire"
)

const (
	bash = `{"hook_event_name":"PreToolUse","session_id":"s1","tool_name":"Bash","tool_input":{"command":"touch x"}}`
	read = `{"hook_event_name":"PreToolUse","session_id":"s1","tool_name":"Read","tool_input":{"file_path":"/etc/hosts"}}`
)

// event is a payload of the named event, with more fields.
func event(name, more string) string {
	return fmt.Sprintf(`{"hook_event_name":%q,"session_id":"s1"%s}`, name, more)
}

func TestParse(t *testing.T) {
	const tool = `,"tool_name":"Bash","tool_input":{"command":"id"}`
	input := []byte(`{"command":"id"}`)
	for _, tc := range []struct {
		name, payload string
		role          wire.Role
		want          Event
	}{
		{"tool call", event("PreToolUse", tool), wire.RoleDecide,
			Event{Kind: ToolCall, Name: "PreToolUse", HostSession: "s1", Tool: "Bash", Input: input}},
		{"everything measured", `{"session_id":"a-b","transcript_path":"/t.jsonl","cwd":"/w","prompt_id":"p","permission_mode":"bypassPermissions",` +
			`"effort":{"level":"high"},"hook_event_name":"PreToolUse","tool_name":"mcp__tiny__touch","tool_input":{},"tool_use_id":"toolu_1",` +
			`"agent_id":"ag","agent_type":"Explore","mcp_server":{"name":"tiny","source":"project"}}`, wire.RoleDecide,
			Event{Kind: ToolCall, Name: "PreToolUse", HostSession: "a-b", Tool: "mcp__tiny__touch", Input: []byte(`{}`), ToolUse: "toolu_1",
				Agent: "ag", AgentType: "Explore", Cwd: "/w", Turn: "p", Mode: "bypassPermissions"}},
		{"skill's shell line", event("PreSkillShellCommand", tool+`,"command_name":"deploy","tool_use_id":"t:preamble-0"`), wire.RoleDecide,
			Event{Kind: ToolCall, Name: "PreSkillShellCommand", HostSession: "s1", Tool: "Bash", Input: input, ToolUse: "t:preamble-0"}},
		{"skill's shell line with another tool's name", event("PreSkillShellCommand", `,"tool_name":"Read","tool_input":{"command":"id"}`), wire.RoleDecide,
			Event{Kind: ToolCall, Name: "PreSkillShellCommand", HostSession: "s1", Tool: "Bash", Input: input}},
		{"config change", event("ConfigChange", `,"source":"project_settings","file_path":"/w/.claude/settings.json"`), wire.RoleDecide,
			Event{Kind: ConfigChange, Name: "ConfigChange", HostSession: "s1", Source: "project_settings"}},
		{"prompt", event("UserPromptSubmit", `,"prompt":"hi"`), wire.RoleDecide,
			Event{Kind: Prompt, Name: "UserPromptSubmit", HostSession: "s1", Prompt: []byte(`"hi"`)}},
		{"session start", event("SessionStart", `,"source":"compact"`), wire.RoleObserve,
			Event{Kind: Observer, Name: "SessionStart", HostSession: "s1", Source: "compact"}},
		{"after a tool", event("PostToolUse", tool+`,"tool_response":[1,{"a":null}],"duration_ms":3`), wire.RoleObserve,
			Event{Kind: Observer, Name: "PostToolUse", HostSession: "s1", Tool: "Bash", Input: input, RanMS: 3, Result: []byte(`[1,{"a":null}]`)}},
		{"after a tool that gave nothing", event("PostToolUse", tool), wire.RoleObserve,
			Event{Kind: Observer, Name: "PostToolUse", HostSession: "s1", Tool: "Bash", Input: input}},
		{"after one that failed", event("PostToolUseFailure", tool+`,"tool_response":"x"`), wire.RoleObserve,
			Event{Kind: Observer, Name: "PostToolUseFailure", HostSession: "s1", Tool: "Bash", Input: input}},
		{"a model", event("SessionStart", `,"source":"startup","model":"claude-x"`), wire.RoleObserve,
			Event{Kind: Observer, Name: "SessionStart", HostSession: "s1", Source: "startup", Model: "claude-x"}},
		{"end of a subagent", event("SubagentStop", `,"agent_id":"a","agent_type":""`), wire.RoleObserve,
			Event{Kind: Observer, Name: "SubagentStop", HostSession: "s1", Agent: "a"}},
		{"optional fields of other types", event("PreToolUse", tool+`,"cwd":5,"agent_id":null,"tool_use_id":["x"],"permission_mode":{}`), wire.RoleDecide,
			Event{Kind: ToolCall, Name: "PreToolUse", HostSession: "s1", Tool: "Bash", Input: input}},
		{"white space around", " \n\t" + event("PreToolUse", tool) + "\r\n ", wire.RoleDecide,
			Event{Kind: ToolCall, Name: "PreToolUse", HostSession: "s1", Tool: "Bash", Input: input}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Parse(wire.HostClaude, tc.role, []byte(tc.payload))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// malformed holds that a payload is refused in both roles, and without a trace.
func malformed(t *testing.T, name, payload string) {
	t.Helper()
	for _, role := range []wire.Role{wire.RoleDecide, wire.RoleObserve, wire.RoleNone} {
		ev, err := Parse(wire.HostClaude, role, []byte(payload))
		if !errors.Is(err, ErrMalformed) && !errors.Is(err, strictjson.ErrMalformed) {
			t.Errorf("%s, role %d: error %v, want malformed", name, role, err)
		}
		if diff := cmp.Diff(Event{}, ev); diff != "" {
			t.Errorf("%s, role %d: an event came with the error: %s", name, role, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for name, payload := range map[string]string{
		"nothing":                    "",
		"null":                       "null",
		"array":                      "[" + bash + "]",
		"string":                     `"PreToolUse"`,
		"cut off":                    bash[:len(bash)-1],
		"no event":                   `{"session_id":"s1","tool_name":"Bash","tool_input":{}}`,
		"event no string":            `{"hook_event_name":["PreToolUse"],"session_id":"s1","tool_name":"Bash","tool_input":{}}`,
		"unknown event":              event("PreToolUse2", ""),
		"event in another case":      strings.Replace(bash, "PreToolUse", "pretooluse", 1),
		"no session":                 strings.Replace(bash, `"session_id":"s1",`, "", 1),
		"empty session":              strings.Replace(bash, `"s1"`, `""`, 1),
		"session no string":          strings.Replace(bash, `"s1"`, `7`, 1),
		"no tool":                    event("PreToolUse", `,"tool_input":{}`),
		"empty tool":                 event("PreToolUse", `,"tool_name":"","tool_input":{}`),
		"tool null":                  event("PreToolUse", `,"tool_name":null,"tool_input":{}`),
		"no input":                   event("PreToolUse", `,"tool_name":"Bash"`),
		"input null":                 event("PreToolUse", `,"tool_name":"Bash","tool_input":null`),
		"input a string":             event("PreToolUse", `,"tool_name":"Bash","tool_input":"{}"`),
		"input a list":               event("PostToolUse", `,"tool_name":"Bash","tool_input":[{}]`),
		"no tool after a tool":       event("PostToolUseFailure", ""),
		"path no string":             strings.Replace(read, `"/etc/hosts"`, `5`, 1),
		"path twice by folding":      strings.Replace(read, `"file_path"`, `"File_Path"`, 1),
		"invalid UTF-8":              strings.Replace(bash, "touch", "\xff", 1),
		"lone surrogate":             strings.Replace(bash, "touch", `\ud800`, 1),
		"raw control character":      strings.Replace(bash, "touch", "a\nb", 1),
		"duplicate key below":        strings.Replace(bash, `"command"`, `"command":"a","command"`, 1),
		"comment":                    "/* */" + bash,
		"trailing comma":             strings.Replace(bash, `}}`, `},}`, 1),
		"NaN":                        strings.Replace(bash, `"touch x"`, `NaN`, 1),
		"single quotes":              `{'hook_event_name':'PreToolUse'}`,
		"deeper than 512 levels":     event("PreToolUse", `,"tool_name":"Bash","tool_input":{"a":`+strings.Repeat("[", 511)+strings.Repeat("]", 511)+"}"),
		"deep without an end":        strings.Repeat(`{"a":`, 100_000),
		"PreSkill without tool name": event("PreSkillShellCommand", `,"tool_input":{}`),
	} {
		malformed(t, name, payload)
	}
}

// Each event belongs to one role.
func TestEventAndRoleFit(t *testing.T) {
	const tool = `,"tool_name":"Bash","tool_input":{}`
	for name, known := range claudeEvents {
		for _, role := range []wire.Role{wire.RoleNone, wire.RoleDecide, wire.RoleObserve, 9} {
			_, err := Parse(wire.HostClaude, role, []byte(event(name, tool)))
			if fits := role == known.role; fits != (err == nil) {
				t.Errorf("%s in role %d: error %v", name, role, err)
			}
		}
	}
}

func TestOtherHostsAreRefused(t *testing.T) {
	for _, host := range []wire.Host{wire.HostNone, wire.HostPi, 9} {
		if _, err := Parse(host, wire.RoleDecide, []byte(bash)); !errors.Is(err, ErrMalformed) {
			t.Errorf("host %d: error %v", host, err)
		}
		if Classify(host, "Read") != Mutator || Builtin(host, "Bash") != NotBuiltin {
			t.Errorf("host %d borrows Claude's tools", host)
		}
	}
}

// TestP1_NotOneObject: nothing is decided from the first of two objects.
func TestP1_NotOneObject(t *testing.T) {
	malformed(t, "byte order mark", "\xef\xbb\xbf"+bash)
	malformed(t, "trailing brace", bash+"}")
	malformed(t, "two objects", `{"tool_name":"Read","tool_input":{}}`+"\n"+bash)
	malformed(t, "read, then bash", read+bash)
	malformed(t, "raw NUL behind", bash+"\x00")
	malformed(t, "raw NUL before", "\x00"+bash)
	malformed(t, "raw NUL inside", strings.Replace(bash, "touch", "\x00", 1))
}

// TestP2_NULInString: the whole value is judged.
func TestP2_NULInString(t *testing.T) {
	ev, err := Parse(wire.HostClaude, wire.RoleDecide, []byte(strings.Replace(bash, "touch x", `echo a\u0000rm b`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	var in struct{ Command string }
	if err := json.Unmarshal(ev.Input, &in); err != nil || in.Command != "echo a\x00rm b" {
		t.Errorf("command %q, %v", in.Command, err)
	}
	ev, err = Parse(wire.HostClaude, wire.RoleDecide, []byte(strings.Replace(read, `"Read"`, `"Read\u0000x"`, 1)))
	if err != nil || ev.Tool != "Read\x00x" || Classify(wire.HostClaude, ev.Tool) != Mutator {
		t.Errorf("tool %q, %v: a name is judged up to its NUL", ev.Tool, err)
	}
}

// TestP5_AmbiguousKeys: what host and broker could read differently is refused.
func TestP5_AmbiguousKeys(t *testing.T) {
	malformed(t, "other case", strings.Replace(bash, `"tool_input"`, `"TOOL_NAME":"Read","tool_input"`, 1))
	malformed(t, "other case alone", strings.Replace(bash, `"tool_name"`, `"Tool_Name"`, 1))
	malformed(t, "twice", strings.Replace(bash, `"tool_input"`, `"tool_name":"Read","tool_input"`, 1))
	malformed(t, "twice, escaped", strings.Replace(bash, `"tool_input"`, `"tool\u005fname":"Read","tool_input"`, 1))
	malformed(t, "long s", strings.Replace(bash, `"tool_name"`, `"\u017fession_id":"s2","tool_name"`, 1))
	for _, key := range commonKeys {
		malformed(t, key, strings.Replace(bash, `"tool_input"`, `"`+strings.ToUpper(key)+`":"x","tool_input"`, 1))
	}
	if _, err := Parse(wire.HostClaude, wire.RoleDecide, []byte(bash)); err != nil {
		t.Errorf("plain tool_name alone: %v", err)
	}
}

// TestP8_NewFieldsAndValues: a newer host's words break nothing.
func TestP8_NewFieldsAndValues(t *testing.T) {
	const more = `"permission_mode":"turbo2027","hook_version":9,"agent":{"k":[1]},"Agent":"other","session":{"session_id":1},`
	for _, payload := range []string{bash, read} {
		ev, err := Parse(wire.HostClaude, wire.RoleDecide, []byte("{"+more+payload[1:]))
		if err != nil || ev.Mode != "turbo2027" {
			t.Errorf("%s: mode %q, %v", payload, ev.Mode, err)
		}
	}
}

// FuzzParse holds what Parse takes to what another parser reads in it.
func FuzzParse(f *testing.F) {
	for _, s := range []string{bash, read, event("SessionStart", `,"source":"clear"`), event("ConfigChange", ""), bash + "}", "\xef\xbb\xbf" + bash,
		strings.Replace(read, `"Read"`, `"Glob"`, 1), strings.Replace(bash, `"tool_name"`, `"TOOL_NAME"`, 1), strings.Repeat("[", 600)} {
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, payload []byte, decide bool) {
		role := wire.RoleObserve
		if decide {
			role = wire.RoleDecide
		}
		ev, err := Parse(wire.HostClaude, role, payload)
		for _, v := range everyVerdict {
			checkReply(t, role, ev, v, Render(wire.HostClaude, role, ev, v))
		}
		if err != nil {
			if ev.Kind != Unknown || !errors.Is(err, ErrMalformed) && !errors.Is(err, strictjson.ErrMalformed) {
				t.Fatalf("event %+v with error %v", ev, err)
			}
			return
		}
		var other map[string]json.RawMessage
		if err := json.Unmarshal(payload, &other); err != nil {
			t.Fatalf("encoding/json refuses it: %v", err)
		}
		for key, got := range map[string]string{keyEvent: ev.Name, keySession: ev.HostSession, keyTool: ev.Tool} {
			var want string
			if known := claudeEvents[ev.Name]; key == keyTool && (!known.tool || ev.Name == "PreSkillShellCommand") {
				continue
			}
			if err := json.Unmarshal(other[key], &want); err != nil || got != want {
				t.Fatalf("%s: %q, encoding/json has %q, %v", key, got, want, err)
			}
		}
	})
}
