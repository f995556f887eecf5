package runtime

import "leaseguard.internal/internal/verdict"

// CodexHook is a hook as the client lists it.
type CodexHook struct {
	Key     string `json:"key"`
	Event   string `json:"eventName"`
	Matcher string `json:"matcher"`
	Command string `json:"command"`
	Async   bool   `json:"async"`
	Source  string `json:"source"`
	File    string `json:"sourcePath"`
	Enabled bool   `json:"enabled"`
	Managed bool   `json:"isManaged"`
	Trust   string `json:"trustStatus"`
}

// runs says whether the client would run the hook.
func (h CodexHook) runs() bool { return h.Enabled && (h.Trust == "trusted" || h.Trust == "managed") }

// CheckHooks looks for the gate's hooks among those that the client lists, and
// for others that would run beside them. cause is "" when all is well.
func (in CodexInstall) CheckHooks(all []CodexHook) (cause, next string) {
	gate := map[string]bool{}
	for _, h := range all {
		event, known := in.codexListed(h.Event)
		own := known && h.Command == in.codexEntry(event).Command && h.Matcher == "" && !h.Async && h.Managed == in.Managed
		switch {
		case !h.runs():
		case own:
			gate[event] = true
		case !h.Managed:
			return "beside the gate it would run the hook " + verdict.Object(h.Key) + ", which may change a call after it was judged", "remove that hook from " + shellWord(h.File)
		}
	}
	for _, event := range in.codexEvents() {
		if gate[event] {
			continue
		}
		if in.Managed {
			return "of the gate's hooks in " + CodexRequirements + " it doesn't run the one for " + event, "as root: guard init --system"
		}
		return "it doesn't run the gate's hook for " + event + ", although its arguments have it; an administrator's " + CodexRequirements + ", or settings that the service sends to an organisation, may say so",
			"have the administrator allow hooks there, or run: guard init --system"
	}
	return "", ""
}

// codexListed finds an event by the client's other name for it, preToolUse.
func (in CodexInstall) codexListed(name string) (string, bool) {
	for _, event := range in.codexEvents() {
		if len(name) == len(event) && name[1:] == event[1:] {
			return event, true
		}
	}
	return "", false
}
