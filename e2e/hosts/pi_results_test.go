//go:build hosts

package hosts

import (
	"strings"
	"testing"
)

// TestPiResults: where somebody judges results, the gate is told what a tool gave,
// as far as it is plain JSON of bounded size, and what it says comes behind the
// result. Where nobody does, the result stays in Pi.
func TestPiResults(t *testing.T) {
	t.Parallel()
	const keeps = `case "$*" in *observe*) cat >>LOG; echo >>LOG; printf %s '{"pass":true,"context":"[Policy violation] no"}'; exit 0;; esac; cat >/dev/null; printf %s '{"pass":true,"context":"ctx"}'`
	ran := func(text string) object { // an expression that gives the text
		return object{"event": "tool_result", "arg": "{ toolName: 'bash', toolCallId: 'c1', input: { command: 'id' }, content: [{ type: 'text', text: " + text + " }] }"}
	}
	for name, tt := range map[string]struct {
		with   object
		text   string
		log    string // of what is told
		absent string
		told   []string
	}{
		"judged":     {with: object{"results": true}, text: "'root:x\\ud800'", log: `"tool_response":[{"type":"text","text":"root:x` + "\ufffd" + `"}]`, told: []string{"", "ctx\n[Policy violation] no"}},
		"not judged": {text: "'root:x'", log: `"tool_input"`, absent: "tool_response", told: []string{"root:x", "ctx\n[Policy violation] no"}},
		"too long":   {with: object{"results": true}, text: "'x'.repeat(1 << 20)", log: `"tool_input"`, absent: "tool_response"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, keeps)
			s.with = tt.with
			answers := s.play(load, toolCall("bash", object{"command": "id"}), ran(tt.text))
			log := strings.Join(s.log(), "\n")
			if !strings.Contains(log, tt.log) || tt.absent != "" && strings.Contains(log, tt.absent) {
				t.Errorf("the gate was told %.300s", log)
			}
			last := answers[len(answers)-1]
			for i, want := range tt.told {
				if i >= len(last.Content) || want != "" && last.Content[i].Text != want {
					t.Errorf("the result is %.300s", last.raw)
				}
			}
		})
	}
	s := newStage(t, keeps)
	s.with = object{"results": "yes"}
	if a := s.play(load); !strings.Contains(a[0].Threw, "results is neither") {
		t.Errorf("loaded with results = \"yes\": %s", a[0].raw)
	}
}
