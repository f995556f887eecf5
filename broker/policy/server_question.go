package policy

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/gate/dialect"
	"leaseguard.internal/internal/wire"
)

// The phases that a server judges, in its words.
const (
	phaseRequest = "PHASE_REQUEST"     // a person's prompt
	phaseCall    = "PHASE_TOOL_CALL"   // a tool is about to run
	phaseResult  = "PHASE_TOOL_RESULT" // it has run
)

// harnesses are the names by which servers know the hosts.
var harnesses = map[wire.Host]string{wire.HostClaude: "claude-native", wire.HostCodex: "codex-native", wire.HostPi: "pi-native"}

// question is one evaluation as it is asked. What is large in it stays a part of
// the payload until it is sent.
type question struct {
	phase   string
	session string
	data    [][]byte // one JSON object in parts: what is judged
	context string
	request [][]byte // of a result: the call that gave it
	key     [sha256.Size]byte
}

// newQuestion makes the evaluation of an event; ok is false for one that servers
// don't judge. No tool's name is exempt. Everything goes out as it came: a server
// judges what runs, not what is left of it.
func newQuestion(c Call) (q question, ok bool) {
	ev := c.Event
	q.session = c.Session
	arguments := ev.Input
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	call := [][]byte{[]byte(`{"name":` + quoted(ev.Tool) + `,"arguments":`), arguments, []byte("}")}
	switch {
	case ev.Kind == dialect.ToolCall:
		q.phase, q.data = phaseCall, call
	case ev.Kind == dialect.Prompt:
		q.phase, q.data = phaseRequest, [][]byte{[]byte(`{"text":`), promptText(ev.Prompt), []byte("}")}
	case ev.Ran() && ev.Result != nil:
		q.phase, q.data, q.request = phaseResult, [][]byte{[]byte(`{"result":`), ev.Result, []byte("}")}, call
	default:
		return q, false
	}
	q.context = `{"harness":` + quoted(harnesses[c.Host])
	if ev.Model != "" {
		q.context += `,"model":` + quoted(ev.Model)
	}
	q.context += "}"
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\x00%d\x00%s\x00%s", c.Session, c.Generation, q.phase, canonical(join(q.data)))
	sum.Sum(q.key[:0])
	return q, true
}

func join(parts [][]byte) []byte { return bytes.Join(parts, nil) }

// body is what is posted.
func (q question) body(id string) []byte {
	parts := [][]byte{[]byte(`{"event":{"type":"` + q.phase + `","target":"","data":`)}
	parts = append(parts, q.data...)
	parts = append(parts, []byte(`,"context":`+q.context))
	if q.request != nil {
		parts = append(append(parts, []byte(`,"request_data":`)), q.request...)
	}
	return join(append(parts, []byte(`},"_omnigent_elicitation_id":"`+id+`"}`)))
}

// closed says whether a call waits for the verdict, so that none is a denial. A
// result is there already.
func (q question) closed() bool { return q.phase != phaseResult }

// same says whether data means what was asked.
func (q question) same(data []byte) bool {
	return bytes.Equal(canonical(join(q.data)), canonical(data))
}

// promptText is a prompt as a JSON string: itself, or the text of what is none.
func promptText(raw []byte) []byte {
	switch {
	case len(raw) == 0:
		return []byte(`""`)
	case raw[0] == '"':
		return raw
	}
	return []byte(quoted(string(raw)))
}

// quoted writes text as a JSON string. What comes from a payload is valid UTF-8.
func quoted(text string) string {
	b, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		return `"\ufffd"`
	}
	return string(b)
}

// canonical is JSON by its meaning: other blanks or another order of keys make no
// other call. Whole numbers stay as long as they are: as floats two of them would be
// one, and so would two calls.
func canonical(raw []byte) []byte {
	v := jsontext.Value(raw).Clone()
	if v.Canonicalize(jsontext.CanonicalizeRawInts(false)) != nil {
		return raw
	}
	return v
}
