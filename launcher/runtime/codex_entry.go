package runtime

import (
	"slices"
	"strconv"
	"time"
)

// codexHooked are the events that the gate is asked about, or hears of.
var codexHooked = []string{
	"PreToolUse", "PostToolUse", "SessionStart", "SessionEnd", "PreCompact", "PostCompact", "SubagentStart", "SubagentStop", "Interrupt",
}

// codexEvents are these, and prompts where a policy server judges them.
func (in Install) codexEvents() []string {
	if in.Judged {
		return append(slices.Clone(codexHooked), promptEvent)
	}
	return codexHooked
}

// codexObserves is how long the client waits for a hook that only hears. It
// gives those at the end of a session no longer.
const codexObserves = 3

// codexMargin is how much longer than the gate's own deadline the hook waits
// before it ends the gate and denies.
const codexMargin = 5

// codexEntry is one hook as the client has it.
type codexEntry struct {
	Command string
	Timeout int64
}

// codexEntry is the gate's hook for an event.
func (in Install) codexEntry(event string) codexEntry {
	gate := append([]string{in.Gate}, in.gateArgs("codex", "--role")...)
	if event != "PreToolUse" && event != promptEvent {
		return codexEntry{shellWords(append(gate, "observe")), codexObserves}
	}
	seconds := in.seconds()
	return codexEntry{
		closingHook(append(gate, "decide", "--deadline", strconv.FormatInt(seconds, 10)), seconds+codexMargin),
		seconds + int64(hookMargin/time.Second),
	}
}
