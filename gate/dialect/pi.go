package dialect

import (
	"path"
	"strings"

	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// piEvents are Pi's own words for its events, as guard's extension sends them.
var piEvents = map[string]hostEvent{
	"tool_call":              {ToolCall, wire.RoleDecide, true},
	"user_bash":              {ToolCall, wire.RoleDecide, true},
	"tool_result":            {Observer, wire.RoleObserve, true},
	"session_start":          {Observer, wire.RoleObserve, false},
	"session_shutdown":       {Observer, wire.RoleObserve, false},
	"session_before_compact": {Observer, wire.RoleObserve, false},
	"session_compact":        {Observer, wire.RoleObserve, false},
	"session_before_switch":  {Observer, wire.RoleObserve, false},
	"session_before_fork":    {Observer, wire.RoleObserve, false},
	"session_tree":           {Observer, wire.RoleObserve, false},
}

var piReads = map[string]Class{"read": Read, "grep": Read, "find": Read, "ls": Read}

// piBuiltins: user_bash is no tool of the model but a line that a person begins
// with "!", and codemode is a script whose calls are judged one by one beside it.
var piBuiltins = map[string]BuiltinKind{
	"bash": ChangesSelf, "edit": ChangesSelf, "write": ChangesSelf, "powershell": ChangesSelf,
	"codemode": ChangesSelf, userBash: ChangesSelf,

	"tool_search": LeaseOnlyTool,
}

const userBash = "user_bash"

func parsePi(role wire.Role, payload []byte) (Event, error) {
	ev, fields, err := parseEvent(role, payload, piEvents, "parent_tool_use_id", "reason", "mode", "home")
	if err != nil {
		return Event{}, err
	}
	if ev.Name == userBash {
		ev.Tool = userBash // whatever it calls itself
	}
	if reason := optional(fields, "reason"); reason != "" {
		ev.Source = reason
	}
	ev.Mode = optional(fields, "mode")
	ev.Agent = optional(fields, "parent_tool_use_id") // the call that made this one takes an agent's place
	if ev.Kind != ToolCall || piReads[ev.Tool] != Read {
		return ev, nil
	}
	name, err := pathArgument(ev, "path")
	if err != nil {
		return Event{}, err
	}
	ev.Reads = piPaths(ev, name, optional(fields, "home"))
	return ev, nil
}

// piPaths are the places that a reading tool may mean by a name: Pi strips an @,
// knows ~ and file: URLs, and takes wide blanks for narrow ones.
func piPaths(ev Event, name, home string) []string {
	if name == "" && ev.Tool == "read" {
		return nil
	}
	paths := []string{absolute(ev.Cwd, name)}
	plain := strings.TrimPrefix(strings.Map(narrow, name), "@")
	switch rest, isURL := strings.CutPrefix(plain, "file://"); {
	case isURL:
		plain = rest
	case home != "" && (plain == "~" || strings.HasPrefix(plain, "~/")):
		plain = path.Join(home, plain[1:])
	}
	if other := absolute(ev.Cwd, plain); other != paths[0] {
		paths = append(paths, other)
	}
	return paths
}

// narrow makes the blanks of Unicode plain ones, as Pi does in paths.
func narrow(r rune) rune {
	if r == 0xA0 || r >= 0x2000 && r <= 0x200A || r == 0x202F || r == 0x205F || r == 0x3000 {
		return ' '
	}
	return r
}

// renderPi writes a decide answer for guard's extension, which passes a call on
// nothing but status 0 with this very object. Pi can't ask anybody.
func renderPi(ev Event, v verdict.Verdict) wire.Reply {
	switch {
	case v.Kind != verdict.Pass || ev.Kind != ToolCall:
		return deny(func(quoted string) string { return `{"block":true,"reason":` + quoted + `}` }, v)
	case v.Context != "":
		context := verdict.Cut(verdict.Clean(v.Context), maxContext)
		return wire.Reply{Kind: wire.KindAnswer, Out: []byte(`{"pass":true,"context":` + quote(context) + `}`)}
	}
	return wire.Reply{Kind: wire.KindAnswer, Out: []byte(`{"pass":true}`)}
}
