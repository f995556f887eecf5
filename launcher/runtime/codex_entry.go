package runtime

import (
	"fmt"
	"time"
)

// codexHooked are the events that the gate is asked about, or hears of.
var codexHooked = []string{
	"PreToolUse", "PostToolUse", "SessionStart", "SessionEnd", "PreCompact", "PostCompact", "SubagentStart", "SubagentStop", "Interrupt",
}

// codexEntry is one hook as the client has it.
type codexEntry struct {
	Command string
	Timeout int64
}

// codexEntry is the gate's hook for an event. Only exit 2 with words on stderr
// keeps the client from running the tool: whatever else becomes of the gate has to
// be made that.
func (in Install) codexEntry(event string) codexEntry {
	seconds := int64((in.Budget + time.Second - 1) / time.Second)
	gate := fmt.Sprintf("%s codex --socket %s --broker-uid %d --role ", shellWord(in.Gate), shellWord(in.Socket), in.BrokerUID)
	if event != "PreToolUse" {
		return codexEntry{gate + "observe", 3}
	}
	return codexEntry{
		fmt.Sprintf("/usr/bin/timeout -k 1 %d %sdecide --deadline %d || { s=$?; [ $s = 2 ] || echo 'guard: broker_unavailable: asking the gate: it ended with '$s >&2; exit 2; }", seconds+5, gate, seconds),
		seconds + int64(hookMargin/time.Second),
	}
}
