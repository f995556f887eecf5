package dialect

import (
	"bytes"
	"fmt"
	"path"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// claudeEvent is what we know of one of Claude's events.
type claudeEvent struct {
	kind Kind
	role wire.Role
	tool bool // it has tool_name and tool_input
}

var claudeEvents = map[string]claudeEvent{
	"PreToolUse":           {ToolCall, wire.RoleDecide, true},
	"PreSkillShellCommand": {ToolCall, wire.RoleDecide, true},
	"ConfigChange":         {ConfigChange, wire.RoleDecide, false},
	"UserPromptSubmit":     {Prompt, wire.RoleDecide, false},
	"SessionStart":         {Observer, wire.RoleObserve, false},
	"SessionEnd":           {Observer, wire.RoleObserve, false},
	"PreCompact":           {Observer, wire.RoleObserve, false},
	"PostCompact":          {Observer, wire.RoleObserve, false},
	"PostToolUse":          {Observer, wire.RoleObserve, true},
	"PostToolUseFailure":   {Observer, wire.RoleObserve, true},
	"SubagentStart":        {Observer, wire.RoleObserve, false},
	"SubagentStop":         {Observer, wire.RoleObserve, false},
	"CwdChanged":           {Observer, wire.RoleObserve, false},
}

// claudeReads says what is safe, never what is dangerous: a tool that a new
// version brings is a mutator.
var claudeReads = map[string]Class{"Read": Read, "Grep": Read, "Glob": Read, "Ls": Read, "Find": Read}

var claudeBuiltins = map[string]BuiltinKind{
	"Bash": ChangesSelf, "Edit": ChangesSelf, "Write": ChangesSelf, "MultiEdit": ChangesSelf, "NotebookEdit": ChangesSelf,
	"Monitor": ChangesSelf, "Workflow": ChangesSelf, "Skill": ChangesSelf, "EnterWorktree": ChangesSelf,
	"ExitWorktree": ChangesSelf, "CronCreate": ChangesSelf, "CronDelete": ChangesSelf, "ScheduleWakeup": ChangesSelf,

	"Agent": LeaseOnlyTool, "ToolSearch": LeaseOnlyTool, "WebFetch": LeaseOnlyTool, "WebSearch": LeaseOnlyTool,
	"ListAgents": LeaseOnlyTool, "CronList": LeaseOnlyTool, "TaskStop": LeaseOnlyTool, "ReportFindings": LeaseOnlyTool,
	"AskUserQuestion": LeaseOnlyTool, "SendMessage": LeaseOnlyTool,
}

// claudeCompleted are tools whose input is another after they ran without
// anybody meaning ill (measured: docs/hosts.md): a person's answers are added, or
// the client takes its own helper keys away.
var claudeCompleted = map[string]bool{"AskUserQuestion": true, "ExitPlanMode": true, "SendMessage": true}

// The payload's keys that something depends on. A key that equals one of them
// only after case folding makes the payload malformed.
const (
	keyEvent   = "hook_event_name"
	keySession = "session_id"
	keyTool    = "tool_name"
	keyInput   = "tool_input"
)

var claudeKeys = []string{
	keyEvent, keySession, keyTool, keyInput,
	"tool_use_id", "agent_id", "agent_type", "cwd", "source", "permission_mode", "duration_ms",
}

func parseClaude(role wire.Role, payload []byte) (Event, error) {
	fields, err := strictjson.Fields(payload, claudeKeys...)
	if err != nil {
		return Event{}, fmt.Errorf("reading the payload: %w", err)
	}
	name, err := required(fields, keyEvent)
	if err != nil {
		return Event{}, err
	}
	known, ok := claudeEvents[name]
	if !ok || known.role != role {
		return Event{}, fmt.Errorf("%w: event %s doesn't belong to a hook of this role", ErrMalformed, verdict.Object(name))
	}
	ev := Event{Kind: known.kind, Name: name}
	if ev.HostSession, err = required(fields, keySession); err != nil {
		return Event{}, err
	}
	ev.ToolUse, ev.Cwd = optional(fields, "tool_use_id"), optional(fields, "cwd")
	ev.Agent, ev.AgentType = optional(fields, "agent_id"), optional(fields, "agent_type")
	ev.Source, ev.Mode = optional(fields, "source"), optional(fields, "permission_mode")
	ev.RanMS = milliseconds(fields["duration_ms"])
	if !known.tool {
		return ev, nil
	}
	return withTool(ev, fields)
}

// withTool adds what an event of a tool has to say.
func withTool(ev Event, fields map[string][]byte) (Event, error) {
	var err error
	if ev.Tool, err = required(fields, keyTool); err != nil {
		return Event{}, err
	}
	if ev.Name == "PreSkillShellCommand" {
		ev.Tool = "Bash" // a skill's shell line, whatever it calls itself
	}
	ev.Input = fields[keyInput]
	if jsontext.Value(ev.Input).Kind() != '{' {
		return Event{}, fmt.Errorf("%w: %s is missing or no object", ErrMalformed, keyInput)
	}
	if ev.Reads, err = claudeReadPaths(ev); err != nil {
		return Event{}, err
	}
	return ev, nil
}

// required returns a string that the verdict depends on.
func required(fields map[string][]byte, key string) (string, error) {
	if s := optional(fields, key); s != "" {
		return s, nil
	}
	return "", fmt.Errorf("%w: %s is missing, empty or no string", ErrMalformed, key)
}

// optional returns a string that no verdict depends on, or nothing: a value of
// another type is a newer host's business.
func optional(fields map[string][]byte, key string) string {
	raw := fields[key]
	if jsontext.Value(raw).Kind() != '"' {
		return ""
	}
	if bytes.IndexByte(raw, '\\') < 0 { // strictjson has checked all else
		return string(raw[1 : len(raw)-1])
	}
	b, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return ""
	}
	return string(b)
}

// maxPath is the longest path that the kernel takes: what is longer names no
// file.
const maxPath = 4096

// claudeReadPaths finds what a reading tool names. A search without a path
// searches the working directory.
func claudeReadPaths(ev Event) ([]string, error) {
	if ev.Kind != ToolCall || claudeReads[ev.Tool] != Read {
		return nil, nil
	}
	key := "path"
	if ev.Tool == "Read" {
		key = "file_path"
	}
	name, err := pathArgument(ev, key)
	if err != nil || name == "" && ev.Tool == "Read" {
		return nil, err
	}
	base := absolute(ev.Cwd, name)
	if ev.Tool != "Glob" {
		return []string{base}, nil
	}
	pattern, err := pathArgument(ev, "pattern")
	if err != nil || pattern == "" {
		return []string{base}, err
	}
	return []string{base, absolute(base, pattern)}, nil
}

// pathArgument reads one string of a tool's input; a list of them is no path.
func pathArgument(ev Event, key string) (string, error) {
	found, _, err := strictjson.Lookup(ev.Input, key)
	switch {
	case err != nil:
		return "", fmt.Errorf("reading what %s reads: %w", ev.Tool, err)
	case len(found) > 1:
		return "", fmt.Errorf("%w: %s of %s is a list", ErrMalformed, key, ev.Tool)
	case len(found) == 0 || len(found[0]) > maxPath:
		return "", nil
	}
	return found[0], nil
}

func absolute(dir, name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(dir, name)
}

// renderClaude writes a decide answer. An ask goes out only for PreToolUse,
// where the client was measured to ask or block; elsewhere it is a deny.
func renderClaude(ev Event, v verdict.Verdict) wire.Reply {
	tool := ev.Kind == ToolCall && ev.Name == "PreToolUse"
	switch {
	case v.Kind == verdict.Ask && v.Reason != "" && tool:
		reason := verdict.Cut(verdict.Clean(v.Reason), verdict.MaxReason)
		return wire.Reply{Kind: wire.KindAnswer, Out: []byte(decision(ev.Name, "ask", quote(reason)))}
	case v.Kind == verdict.Pass && tool && v.Context != "":
		context := verdict.Cut(verdict.Clean(v.Context), maxContext)
		return wire.Reply{Kind: wire.KindAnswer,
			Out: []byte(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","additionalContext":` + quote(context) + `}}`)}
	case v.Kind == verdict.Pass && ev.Kind != Unknown && ev.Kind != Observer:
		return wire.Reply{Kind: wire.KindAnswer, Out: []byte(`{}`)}
	case ev.Kind == ConfigChange || ev.Kind == Prompt:
		return deny(block, v)
	case ev.Kind == ToolCall:
		return deny(func(quoted string) string { return decision(ev.Name, "deny", quoted) }, v)
	}
	return deny(preToolUse, v)
}

// block is the form of events without a permission decision. Status 2 keeps the
// old settings in force, or the prompt from the model; an object with another
// event's name would be an error of the hook instead.
func block(quoted string) string { return `{"decision":"block","reason":` + quoted + `}` }

// milliseconds reads a duration; anything else is none.
func milliseconds(raw []byte) int64 {
	if len(raw) == 0 {
		return 0
	}
	const day = 24 * 60 * 60 * 1000
	ms, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || ms < 0 || ms > day {
		return 0
	}
	return int64(ms)
}
