package runtime

import (
	"bytes"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"leaseguard.internal/internal/verdict"
)

// An administrator's requirements of Codex are one file for all who have any. So
// guard's keys are put into it as lines of their own between two marks, and what
// is there of others stays byte for byte.
const (
	requirementsBegin = "# >>> guard init --system writes these lines and replaces them\n"
	requirementsEnd   = "# <<< guard\n"
)

// featuresHeader is the line behind which guard's switches have to stand, where
// an administrator sets some too.
var featuresHeader = regexp.MustCompile(`(?m)^[ \t]*\[[ \t]*features[ \t]*\][ \t]*(#.*)?\n`)

// codexRequired are the switches that guard wants there, with what they have to be.
var codexRequired = []struct {
	name string
	on   bool
}{{"hooks", true}, {"unified_exec_tty", false}}

// Requirements puts the gate's hooks into an administrator's file: they need no
// trust, nobody's configuration switches them off, and no hook but an
// administrator's runs beside them. Where that can't be done without changing what
// is there, the error says so and nothing is made.
func (in CodexInstall) Requirements(old []byte) ([]byte, error) {
	if len(old) > 0 && !bytes.HasSuffix(old, []byte("\n")) {
		old = concat(old, []byte("\n"))
	}
	base, err := WithoutRequirements(old)
	if err != nil {
		return nil, err
	}
	var was requirements
	if err := toml.Unmarshal(base, &was); err != nil {
		return nil, badRequirements(err.Error(), "correct it")
	}
	head, switches, err := was.missing()
	if err != nil {
		return nil, err
	}
	tail := in.requiredHooks()
	text := base
	switch at := featuresHeader.FindIndex(base); {
	case switches == "":
	case was.Features == nil:
		tail = "[features]\n" + switches + tail
	case at == nil:
		return nil, badRequirements("its features are written in a way that guard adds nothing to", "write them below a line [features]")
	default:
		text = concat(base[:at[1]], marked(switches), base[at[1]:])
	}
	text = concat(marked(head), text, marked(tail))
	return text, in.check(base, text)
}

// requirements is what guard reads of the file.
type requirements struct {
	Only     *bool           `toml:"allow_managed_hooks_only"`
	Features map[string]bool `toml:"features"`
	Hooks    map[string]any  `toml:"hooks"`
}

// missing are the lines that an administrator's file doesn't have yet.
func (r requirements) missing() (head, switches string, err error) {
	if r.Only == nil {
		head = "allow_managed_hooks_only = true\n"
	} else if !*r.Only {
		return "", "", badRequirements("it has allow_managed_hooks_only = false, so that other hooks could change a call after it was judged", "remove that line")
	}
	for _, f := range codexRequired {
		switch on, set := r.Features[f.name]; {
		case !set:
			switches += fmt.Sprintf("%s = %v\n", f.name, f.on)
		case on != f.on:
			return "", "", badRequirements(fmt.Sprintf("it has features.%s = %v", f.name, on), "remove that line")
		}
	}
	return head, switches, nil
}

// requiredHooks are the gate's hooks as tables, which stand at the end.
func (in CodexInstall) requiredHooks() string {
	var b strings.Builder
	for _, event := range in.codexEvents() {
		h := in.codexEntry(event)
		fmt.Fprintf(&b, "[[hooks.%s]]\n[[hooks.%s.hooks]]\ntype = \"command\"\ncommand = %s\ntimeout = %d\n", event, event, tomlText(h.Command), h.Timeout)
	}
	return b.String()
}

// check reads the text as the client will: guard's hooks are in it, and what an
// administrator wrote says what it said.
func (in CodexInstall) check(base, text []byte) error {
	var was, is map[string]any
	var now requirements
	for _, err := range []error{toml.Unmarshal(base, &was), toml.Unmarshal(text, &is), toml.Unmarshal(text, &now)} {
		if err != nil {
			return badRequirements("guard's hooks can't be added to it: "+err.Error(), "write its hooks as tables: [[hooks.PreToolUse]]")
		}
	}
	if now.Only == nil || !*now.Only || !now.Features["hooks"] {
		return badRequirements("guard's lines would not count there", "put what stands before the first table of that file below one")
	}
	for _, event := range in.codexEvents() {
		groups, _ := now.Hooks[event].([]any)
		last, _ := groups[len(groups)-1].(map[string]any)
		hooks, _ := last["hooks"].([]any)
		if len(hooks) != 1 || hooks[0].(map[string]any)["command"] != in.codexEntry(event).Command {
			return badRequirements("guard's hook for "+event+" would not be its own there", "write its hooks as tables: [[hooks.PreToolUse]]")
		}
	}
	for key, value := range was {
		if key != "hooks" && key != "features" && !reflect.DeepEqual(value, is[key]) {
			return badRequirements("its key "+key+" would say something else with guard's lines", "move it above the first table")
		}
	}
	return nil
}

// WithoutRequirements takes guard's lines out of an administrator's file.
func WithoutRequirements(text []byte) ([]byte, error) {
	var out []byte
	for {
		before, rest, found := bytes.Cut(text, []byte(requirementsBegin))
		out = append(out, before...)
		if !found {
			return out, nil
		}
		_, after, ended := bytes.Cut(rest, []byte(requirementsEnd))
		if !ended {
			return nil, badRequirements("guard's lines in it have no end", "remove them, or write back the line "+strings.TrimSpace(requirementsEnd))
		}
		text = after
	}
}

// Required says whether guard's lines are in the administrator's requirements.
func (u CodexUser) Required() bool { return bytes.Contains(u.required(), []byte(requirementsBegin)) }

// required is the text of the administrator's requirements.
func (u CodexUser) required() []byte {
	i := slices.IndexFunc(u.Files, func(m Managed) bool { return m.Path == CodexRequirements })
	if i < 0 {
		return nil
	}
	return u.Files[i].Data
}

// RequiredFault says why the administrator's requirements don't have every Codex
// ask this gate; empty when they do.
func (in CodexInstall) RequiredFault(u CodexUser) string {
	want, err := in.Requirements(u.required())
	switch {
	case !u.Required():
		return "has no hooks of guard's: a Codex that guard didn't launch asks nobody"
	case err != nil:
		return verdict.Clean(err.Error())
	}
	var is, wanted map[string]any
	if toml.Unmarshal(u.required(), &is) != nil || toml.Unmarshal(want, &wanted) != nil || !reflect.DeepEqual(is, wanted) {
		return "has other lines of guard's than this one writes"
	}
	return ""
}

// marked are lines of guard's; none without lines.
func marked(lines string) []byte {
	if lines == "" {
		return nil
	}
	return []byte(requirementsBegin + lines + requirementsEnd)
}

func concat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func badRequirements(cause, next string) error {
	return fmt.Errorf("having Codex ask guard by %q: %s; %s, then run this again", CodexRequirements, verdict.Clean(cause), next)
}
