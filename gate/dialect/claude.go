package dialect

import (
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

var claudeEvents = map[string]hostEvent{
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

func parseClaude(role wire.Role, payload []byte) (Event, error) {
	ev, _, err := parseEvent(role, payload, claudeEvents)
	if err != nil {
		return Event{}, err
	}
	if ev.Name == "PreSkillShellCommand" {
		ev.Tool = "Bash" // a skill's shell line, whatever it calls itself
	}
	if ev.Reads, err = claudeReadPaths(ev); err != nil {
		return Event{}, err
	}
	return ev, nil
}

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
