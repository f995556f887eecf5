package policy

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/verdict"
)

// action is what a server says of a call. The zero value is nothing that it says.
type action uint8

const (
	none action = iota
	allow
	deny
	ask
)

// actions are the words, to the letter. A word that isn't here is no verdict.
var actions = map[string]action{"POLICY_ACTION_ALLOW": allow, "POLICY_ACTION_DENY": deny, "POLICY_ACTION_ASK": ask}

// answer is a verdict as it came.
type answer struct {
	action action
	reason string
	data   []byte // that the server would have in place of what was asked; nil: nothing
}

// maxAnswer is the most bytes of an answer.
const maxAnswer = 1 << 20

// readAnswer understands the body of a 2xx.
func readAnswer(body []byte) (answer, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return answer{}, fmt.Errorf("its answer is empty")
	}
	fields, err := strictjson.Fields(body, "result", "reason", "data")
	if err != nil {
		return answer{}, fmt.Errorf("its answer is not understood: %w", err)
	}
	word, ok := text(fields["result"])
	if !ok {
		return answer{}, fmt.Errorf("its answer has no result")
	}
	a := answer{action: actions[word]}
	if a.action == none {
		return answer{}, fmt.Errorf("its result %s is no verdict", verdict.Object(word))
	}
	if raw := fields["reason"]; len(raw) > 0 && jsontext.Value(raw).Kind() != 'n' {
		if a.reason, ok = text(raw); !ok {
			return answer{}, fmt.Errorf("its reason is no text")
		}
	}
	if raw := fields["data"]; len(raw) > 0 && jsontext.Value(raw).Kind() != 'n' {
		a.data = raw
	}
	return a, nil
}

// text reads a JSON string.
func text(raw []byte) (string, bool) {
	if jsontext.Value(raw).Kind() != '"' {
		return "", false
	}
	b, err := jsontext.AppendUnquote(nil, raw)
	return string(b), err == nil
}

// refusal is what the body of an error says: its message where it has the forms
// that are known, and nothing of any other body.
func refusal(body []byte) string {
	fields, err := strictjson.Fields(body)
	if err != nil {
		return ""
	}
	if raw := fields["error"]; jsontext.Value(raw).Kind() == '{' {
		if fields, err = strictjson.Fields(raw); err != nil {
			return ""
		}
	}
	for _, key := range []string{"message", "reason", "detail", "error"} {
		if s, ok := text(fields[key]); ok && s != "" {
			return verdict.Cut(verdict.Clean(s), 200)
		}
	}
	return ""
}
