package dialect

import (
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// codexEvents have Claude's words for the most part. Codex has no event for a
// changed settings file: it reads its hooks when a conversation begins.
var codexEvents = map[string]hostEvent{
	"PreToolUse":       {ToolCall, wire.RoleDecide, true},
	"UserPromptSubmit": {Prompt, wire.RoleDecide, false},
	"SessionStart":     {Observer, wire.RoleObserve, false},
	"SessionEnd":       {Observer, wire.RoleObserve, false},
	"PreCompact":       {Observer, wire.RoleObserve, false},
	"PostCompact":      {Observer, wire.RoleObserve, false},
	"PostToolUse":      {Observer, wire.RoleObserve, true},
	"SubagentStart":    {Observer, wire.RoleObserve, false},
	"SubagentStop":     {Observer, wire.RoleObserve, false},
	"Interrupt":        {Observer, wire.RoleObserve, false},
}

// codexBuiltins are the tools that the client was seen to ask about. It has none
// that reads alone: a model looks at files with Bash. Calls of a subagent are
// asked about one by one, so that starting one needs no checkpoint. The client
// writes a group's name and a tool's in one word.
var codexBuiltins = map[string]BuiltinKind{
	"Bash": ChangesSelf, "apply_patch": ChangesSelf,

	"spawn_agent": LeaseOnlyTool, "multi_agent_v1wait_agent": LeaseOnlyTool, "multi_agent_v1close_agent": LeaseOnlyTool,
	"multi_agent_v1resume_agent": LeaseOnlyTool, "multi_agent_v1send_input": LeaseOnlyTool,
	"collaborationspawn_agent": LeaseOnlyTool, "collaborationwait_agent": LeaseOnlyTool, "collaborationlist_agents": LeaseOnlyTool,
	"collaborationsend_message": LeaseOnlyTool, "collaborationfollowup_task": LeaseOnlyTool, "collaborationinterrupt_agent": LeaseOnlyTool,
	"view_image": LeaseOnlyTool, "get_goal": LeaseOnlyTool, "create_goal": LeaseOnlyTool, "update_goal": LeaseOnlyTool,
	"list_mcp_resources": LeaseOnlyTool, "list_mcp_resource_templates": LeaseOnlyTool, "read_mcp_resource": LeaseOnlyTool,
	"request_user_input": LeaseOnlyTool, "request_user_input_async": LeaseOnlyTool, "send_message_to_user_async": LeaseOnlyTool,
	"tool_search": LeaseOnlyTool, "clockcurr_time": LeaseOnlyTool, "clocksleep": LeaseOnlyTool,
}

func parseCodex(role wire.Role, payload []byte) (Event, error) {
	ev, _, err := parseEvent(role, payload, codexEvents)
	return ev, err
}

// renderCodex writes a decide answer: Codex takes Claude's forms, but runs the
// tool when it is told to ask.
func renderCodex(ev Event, v verdict.Verdict) wire.Reply {
	if v.Kind == verdict.Ask || ev.Kind != ToolCall && ev.Kind != Prompt {
		v.Kind = verdict.Deny
	}
	return renderClaude(ev, v)
}
