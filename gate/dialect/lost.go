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
	case "PreCompact", "PostCompact":
		return "compaction", true
	case "SessionStart":
		// Only a start is known to lose nothing: a source that a newer host
		// brings, or none, may.
		if e.Source != "startup" {
			return "session start " + verdict.Object(e.Source), true
		}
	}
	return "", false
}
