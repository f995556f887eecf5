package dialect

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
		switch e.Source {
		case "clear", "compact", "resume", "fork":
			return e.Source, true
		}
	}
	return "", false
}
