package dialect

import "leaseguard.internal/internal/verdict"

// LostContext says what an event tells of a conversation that the model no
// longer has whole: after that, whoever verified the session verified another
// one. Each of these events alone ends a lease.
func (e Event) LostContext() (what string, lost bool) {
	if e.Kind != Observer {
		return "", false
	}
	switch e.Name {
	case "PreCompact", "PostCompact", "session_before_compact", "session_compact":
		return "compaction", true
	case "SessionStart", "session_start":
		// Only a start is known to lose nothing: a source that a newer host
		// brings, or none, may.
		if e.Source != "startup" {
			return "session start " + verdict.Object(e.Source), true
		}
	case "session_before_switch", "session_before_fork", "session_tree":
		return "another branch or session " + verdict.Object(e.Source), true
	case "session_shutdown":
		return "session shutdown " + verdict.Object(e.Source), true
	}
	return "", false
}

// Ran says whether the event tells of a tool that has run, well or not.
func (e Event) Ran() bool {
	return e.Kind == Observer && (e.Name == "PostToolUse" || e.Name == "tool_result")
}

// Listens says whether the model is told what comes with a pass of the event.
func (e Event) Listens() bool {
	return e.Kind == ToolCall && (e.Name == "PreToolUse" || e.Name == "tool_call")
}

// Leaves says whether what asks the gate is taken down with this event, so that
// nothing is known of it until it greets again.
func (e Event) Leaves() bool { return e.Kind == Observer && e.Name == "session_shutdown" }

// Greets says whether the event is such a greeting.
func (e Event) Greets() bool { return e.Kind == Observer && e.Name == "session_start" }
