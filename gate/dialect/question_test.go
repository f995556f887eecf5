package dialect

import (
	"testing"

	"leaseguard.internal/internal/wire"
)

// TestQuestion: what nobody asked is read as what a host asks is.
func TestQuestion(t *testing.T) {
	tests := []struct {
		name, tool, input, cwd string
		reads                  string // the one path that it reads
		bad                    bool
	}{
		{name: "a read", tool: "Read", input: `{"file_path":"a.txt"}`, cwd: "/srv/x", reads: "/srv/x/a.txt"},
		{name: "a change", tool: "Bash", input: `{"command":"true"}`, cwd: "/srv/x"},
		{name: "a name that needs quoting", tool: "mcp__\"\\\n__x", input: `{}`, cwd: "/srv/\"x"},
		{name: "no object", tool: "Bash", input: `[]`, bad: true},
		{name: "no JSON", tool: "Bash", input: ``, bad: true},
		{name: "equal keys", tool: "Bash", input: `{"a":1,"a":2}`, bad: true},
		{name: "more than one value", tool: "Bash", input: `{},"tool_name":"Read","x":{}`, bad: true},
		{name: "no tool", tool: "", input: `{}`, bad: true},
		{name: "no text", tool: "\xff", input: `{}`, bad: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ev, err := Question(wire.HostClaude, tt.tool, []byte(tt.input), tt.cwd)
			if (err != nil) != tt.bad {
				t.Fatalf("%+v, %v", ev, err)
			}
			if tt.bad {
				return
			}
			if ev.Kind != ToolCall || ev.Tool != tt.tool || string(ev.Input) != tt.input || ev.Cwd != tt.cwd {
				t.Errorf("%+v", ev)
			}
			if tt.reads != "" && (len(ev.Reads) != 1 || ev.Reads[0] != tt.reads) {
				t.Errorf("it reads %q", ev.Reads)
			}
		})
	}
	if _, err := Question(0, "Bash", []byte(`{}`), "/"); err == nil {
		t.Error("a host that isn't one asks")
	}
}
