package wire

import "github.com/go-json-experiment/json/jsontext"

// HookInput is what a policy hook reads of a call, but for the tool's input:
// docs/policy.md says what each field is for which host.
type HookInput struct{ Session, Turn, Run, ToolUse, Tool, Cwd, Mode, Origin string }

// Around is what stands before and after the tool's input in a hook's line, which
// is one line of JSON.
func (h HookInput) Around() (before, after []byte) {
	before = []byte(`{"schema_version":1,"hook_event_name":"PreToolUse"`)
	for _, f := range [][2]string{{"session_id", h.Session}, {"turn_id", h.Turn}, {"run_id", h.Run}, {"tool_use_id", h.ToolUse}, {"tool_name", h.Tool}} {
		before = appendField(before, f[0], f[1])
	}
	before = append(before, `,"tool_input":`...)
	for _, f := range [][2]string{{"cwd", h.Cwd}, {"permission_mode", h.Mode}, {"origin", h.Origin}} {
		after = appendField(after, f[0], f[1])
	}
	return before, append(after, "}\n"...)
}

func appendField(b []byte, key, value string) []byte {
	b = append(append(append(b, `,"`...), key...), `":`...)
	b, _ = jsontext.AppendQuote(b, value) // its error tells of bytes that it has replaced
	return b
}

// OneLine makes blanks of what parts a JSON value into lines: between its parts,
// since none can be inside a string.
func OneLine(b []byte) {
	for i, ch := range b {
		if ch == '\n' || ch == '\r' {
			b[i] = ' '
		}
	}
}
