package runtime

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Effective is what an administrator's files come to together, as far as files
// can tell: the client was seen to let hooks of a file fall and keep the rest of
// it. So it explains what a proof has found, and stands for none.
type Effective struct {
	Hooks   []ManagedHook // those that are loaded, in the order of the files
	Off     []Fault       // why managed hooks don't run at all, or may not
	Skipped []Fault       // files and hooks that the client leaves out
	Loose   []Fault       // what others than root may change, and hooks with it
	Only    string        // the file by which no hooks but managed ones run; "": others run too
	Others  string        // the file that lets others run though one before it doesn't
	plugins string        // the file by which those and plugins' run
}

// ManagedHook is one entry of an administrator's hooks.
type ManagedHook struct {
	File, Event, Matcher string
	Entry                jsontext.Value
}

// Fault is one thing that keeps hooks from running.
type Fault struct{ File, What, Next string }

func (f Fault) String() string { return f.File + " " + f.What }

// InEffect puts the files together by the rules that docs/hosts.md has measured:
// of a switch the last file counts that sets it to true or false, and hooks of
// all files run.
func InEffect(all []Managed) Effective {
	var e Effective
	disabled := ""
	for _, m := range all {
		if m.Loose != "" {
			e.Loose = append(e.Loose, Fault{m.Path, "can be changed by others than root: " + m.Loose, "chown root:root " + shellWord(m.Path) + "; chmod go-w " + shellWord(m.Path)})
		}
		top, err := m.parsed()
		switch {
		case m.Error != "":
			e.Skipped = append(e.Skipped, Fault{m.Path, "can't be read, so the client leaves it out: " + m.Error, "make it readable for everybody"})
		case err != nil:
			e.off(m, "is no JSON object, so the client doesn't start: "+err.Error(), "correct or remove it")
		}
		disabled = last(disabled, top["disableAllHooks"], m.Path)
		only := last(e.Only, top["allowManagedHooksOnly"], m.Path)
		if e.Only != "" && only == "" {
			e.Others = m.Path
		}
		e.Only = only
		if v := top["strictPluginOnlyCustomization"]; v.Kind() == 't' || v.Kind() == '[' && strings.Contains(string(v), `"hooks"`) {
			e.plugins = m.Path
		}
		for _, key := range []string{"policyHelper", "policyHelpers"} {
			if v, ok := top[key]; ok && v.Kind() != 'n' {
				e.off(m, "has "+key+": a program says what the settings are, in place of these files", "have that program give guard's hooks too, or remove "+key)
			}
		}
		e.load(m, top["hooks"])
	}
	if disabled != "" {
		e.off(Managed{Path: disabled}, "has disableAllHooks = true", "remove disableAllHooks from "+shellWord(disabled))
	}
	return e
}

func (e *Effective) off(m Managed, what, next string) {
	e.Off = append(e.Off, Fault{m.Path, what, next})
}

// last is the file that has set a switch, after one more file.
func last(file string, v jsontext.Value, path string) string {
	if v.Kind() == jsontext.KindTrue {
		return path
	}
	if v.Kind() == jsontext.KindFalse {
		return ""
	}
	return file // the client ignores what is neither
}

// load takes over the hooks of one file that the client loads.
func (e *Effective) load(m Managed, hooks jsontext.Value) {
	var events map[string][]struct {
		Matcher *string          `json:"matcher"`
		Hooks   []jsontext.Value `json:"hooks"`
	}
	if json.Unmarshal(hooks, &events, jsontext.AllowDuplicateNames(true)) != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(events)) {
		for _, group := range events[name] {
			for _, entry := range group.Hooks {
				if bad := hookShape(entry, ""); bad != nil {
					e.Skipped = append(e.Skipped, Fault{m.Path, "has a hook of " + name + " that the client leaves out: at " + bad.at + ": want " + bad.want, "correct or remove it"})
					continue
				}
				h := ManagedHook{File: m.Path, Event: name, Matcher: "*", Entry: entry}
				if group.Matcher != nil {
					h.Matcher = *group.Matcher
				}
				e.Hooks = append(e.Hooks, h)
			}
		}
	}
}

// Alone says whether no hooks of users, projects and arguments run.
func (e Effective) Alone() bool { return e.Only != "" || e.plugins != "" }

// Missing names the events that the gate isn't asked on, in the order in which
// guard installs them; none: by the files it is asked on all.
func (e Effective) Missing(in Install) []string {
	var missing []string
	want := in.hooks()
	for _, event := range slices.Concat(in.decides(), observeEvents) {
		entry, err := json.Marshal(want[event][0].Hooks[0])
		if err != nil || len(e.Off) > 0 || !e.has(event, entry) {
			missing = append(missing, event)
		}
	}
	return missing
}

// has looks for an entry that is exactly this one and meets every tool.
func (e Effective) has(event string, entry jsontext.Value) bool {
	return slices.ContainsFunc(e.Hooks, func(h ManagedHook) bool {
		return h.Event == event && (h.Matcher == "*" || h.Matcher == "" || h.Matcher == ".*") && equal(h.Entry, entry)
	})
}

// Blame says what is known to keep guard's hooks from running: those of the
// files, and, where a session brings hooks of its own, what silences these.
func (e Effective) Blame() string {
	var all []string
	if faults := slices.Concat(e.Off, e.Skipped); len(faults) > 0 {
		all = append(all, faults[0].String())
		if more := len(faults) - 1; more > 0 {
			all = append(all, fmt.Sprintf("%d more of the kind", more))
		}
	}
	if e.Only != "" {
		all = append(all, e.Only+" has allowManagedHooksOnly = true")
	}
	if e.plugins != "" {
		all = append(all, e.plugins+" has strictPluginOnlyCustomization for hooks")
	}
	return strings.Join(all, "; ")
}
