package archtest

import (
	"encoding/hex"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"leaseguard.internal/internal/wire"
)

// example finds the blocks of docs/protocol.md that show a frame's bytes: a
// fence with a name, then lines of "bytes   # meaning".
var example = regexp.MustCompile("(?s)```frame ([a-z-]+)\n(.*?)```")

// TestProtocolDocumentHasTheBytes holds the frames that the document shows
// equal to those that the code writes.
func TestProtocolDocumentHasTheBytes(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(root, "docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]byte{
		"event": wire.AppendRequest(nil, wire.Request{
			Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleDecide, Peer: 4242, Body: []byte(`{"tool_name":"Bash"}`),
		}),
		"control": wire.AppendRequest(nil, wire.Request{Kind: wire.KindControl, Control: []byte(`{"verb":"status"}`)}),
		"answer":  wire.AppendReply(nil, wire.Reply{Kind: wire.KindAnswer, Exit: 2, Out: []byte(`{}`), Err: []byte("no")}),
		"hooks":   wire.HooksFrame(),
		"ready":   wire.AppendRequest(nil, wire.Request{Kind: wire.KindHooksReady}),
	}
	for _, m := range example.FindAllStringSubmatch(string(text), -1) {
		name, shown := m[1], []byte(nil)
		for line := range strings.Lines(m[2]) {
			digits, _, _ := strings.Cut(line, "#")
			b, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
			if err != nil {
				t.Fatalf("frame %s: line %q: %v", name, line, err)
			}
			shown = append(shown, b...)
		}
		if string(shown) != string(want[name]) {
			t.Errorf("frame %s:\nshown % x\nwant  % x", name, shown, want[name])
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("frame %s is not shown", name)
	}
}
