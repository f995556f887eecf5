package dialect

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/wire"
)

// asks are the events by which hosts ask about a tool call.
var asks = map[wire.Host]string{wire.HostClaude: "PreToolUse", wire.HostCodex: "PreToolUse", wire.HostPi: "tool_call"}

// Question is the event of a tool call that no host has made: what Parse makes of
// the payload that the host would send, in the directory cwd.
func Question(host wire.Host, tool string, input []byte, cwd string) (Event, error) {
	if _, err := strictjson.Fields(input); err != nil { // it would say more than its place in the payload
		return Event{}, fmt.Errorf("reading the tool's input: %w", err)
	}
	payload := []byte("{")
	for _, field := range [][2]string{{keyEvent, asks[host]}, {keySession, "question"}, {keyTool, tool}, {"cwd", cwd}} {
		quoted, err := jsontext.AppendQuote(nil, field[1])
		if err != nil {
			return Event{}, fmt.Errorf("%w: %s: %w", ErrMalformed, field[0], err)
		}
		payload = fmt.Appendf(payload, "%q:%s,", field[0], quoted)
	}
	payload = fmt.Appendf(payload, "%q:%s}", keyInput, input)
	return Parse(host, wire.RoleDecide, payload)
}
