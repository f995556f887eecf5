package dialect

import (
	"bytes"
	"fmt"
	"path"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// hostEvent is what we know of one of a host's events.
type hostEvent struct {
	kind Kind
	role wire.Role
	tool bool // it has tool_name and tool_input
}

// The payload's keys that something depends on, in the words of every host. A
// key that equals one of them only after case folding makes the payload
// malformed.
const (
	keyEvent   = "hook_event_name"
	keySession = "session_id"
	keyTool    = "tool_name"
	keyInput   = "tool_input"
	keyAgent   = "agent_id"
	keySource  = "source"
	keyMode    = "permission_mode"
	keyPrompt  = "prompt_id" // Claude's word for a turn
	keyTurn    = "turn_id"   // Codex's
	keyText    = "prompt"    // what a person has said
	keyResult  = "tool_response"
	keyModel   = "model"
)

var commonKeys = []string{
	keyEvent, keySession, keyTool, keyInput,
	"tool_use_id", keyAgent, "agent_type", "cwd", keySource, keyMode, keyPrompt, keyTurn, keyText, keyResult, keyModel, "duration_ms",
}

// parseEvent reads what the payloads of all hosts have in common. The fields are
// returned for what one host alone has.
func parseEvent(role wire.Role, payload []byte, events map[string]hostEvent, more ...string) (Event, map[string][]byte, error) {
	fields, err := strictjson.Fields(payload, append(more, commonKeys...)...)
	if err != nil {
		return Event{}, nil, fmt.Errorf("reading the payload: %w", err)
	}
	name, err := required(fields, keyEvent)
	if err != nil {
		return Event{}, nil, err
	}
	known, ok := events[name]
	if !ok || known.role != role {
		return Event{}, nil, fmt.Errorf("%w: event %s doesn't belong to a hook of this role", ErrMalformed, verdict.Object(name))
	}
	ev := Event{Kind: known.kind, Name: name}
	if ev.HostSession, err = required(fields, keySession); err != nil {
		return Event{}, nil, err
	}
	ev.ToolUse, ev.Cwd = optional(fields, "tool_use_id"), optional(fields, "cwd")
	ev.Agent, ev.AgentType = optional(fields, keyAgent), optional(fields, "agent_type")
	ev.Source, ev.Mode = optional(fields, keySource), optional(fields, keyMode)
	if ev.Turn = optional(fields, keyPrompt); ev.Turn == "" {
		ev.Turn = optional(fields, keyTurn)
	}
	ev.RanMS, ev.Model = milliseconds(fields["duration_ms"]), optional(fields, keyModel)
	if ev.Kind == Prompt {
		ev.Prompt = fields[keyText]
	}
	if ev.Ran() {
		ev.Result = fields[keyResult]
	}
	if !known.tool {
		return ev, fields, nil
	}
	if ev.Tool, err = required(fields, keyTool); err != nil {
		return Event{}, nil, err
	}
	ev.Input = fields[keyInput]
	if jsontext.Value(ev.Input).Kind() != '{' {
		return Event{}, nil, fmt.Errorf("%w: %s is missing or no object", ErrMalformed, keyInput)
	}
	return ev, fields, nil
}

// required returns a string that the verdict depends on.
func required(fields map[string][]byte, key string) (string, error) {
	if s := optional(fields, key); s != "" {
		return s, nil
	}
	return "", fmt.Errorf("%w: %s is missing, empty or no string", ErrMalformed, key)
}

// optional returns a string that no verdict depends on, or nothing: a value of
// another type is a newer host's business.
func optional(fields map[string][]byte, key string) string {
	raw := fields[key]
	if jsontext.Value(raw).Kind() != '"' {
		return ""
	}
	if bytes.IndexByte(raw, '\\') < 0 { // strictjson has checked all else
		return string(raw[1 : len(raw)-1])
	}
	b, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return ""
	}
	return string(b)
}

// maxPath is the longest path that the kernel takes: what is longer names no
// file.
const maxPath = 4096

// pathArgument reads one string of a tool's input; a list of them is no path.
func pathArgument(ev Event, key string) (string, error) {
	found, _, err := strictjson.Lookup(ev.Input, key)
	switch {
	case err != nil:
		return "", fmt.Errorf("reading what %s reads: %w", ev.Tool, err)
	case len(found) > 1:
		return "", fmt.Errorf("%w: %s of %s is a list", ErrMalformed, key, ev.Tool)
	case len(found) == 0 || len(found[0]) > maxPath:
		return "", nil
	}
	return found[0], nil
}

func absolute(dir, name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(dir, name)
}

// milliseconds reads a duration; anything else is none.
func milliseconds(raw []byte) int64 {
	if len(raw) == 0 {
		return 0
	}
	const day = 24 * 60 * 60 * 1000
	ms, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || ms < 0 || ms > day {
		return 0
	}
	return int64(ms)
}
