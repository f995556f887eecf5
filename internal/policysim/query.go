package policysim

import (
	"mime"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// query is an evaluation that was understood.
type query struct {
	id, phase string
	event     jsontext.Value
}

var (
	phases = []string{"PHASE_REQUEST", "PHASE_RESPONSE", "PHASE_TOOL_CALL", "PHASE_TOOL_RESULT", "PHASE_LLM_REQUEST", "PHASE_LLM_RESPONSE"}
	goodID = regexp.MustCompile(`^elicit_evaluate_[0-9a-f]{32}$`)
)

// isJSON says whether a content type is one of JSON's.
func isJSON(header string) bool {
	kind, _, err := mime.ParseMediaType(header)
	return err == nil && (kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json"))
}

// object reads a JSON object; nil for anything else.
func object(raw jsontext.Value) map[string]jsontext.Value {
	if raw.Kind() != '{' {
		return nil
	}
	var fields map[string]jsontext.Value
	if json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	return fields
}

// read checks an evaluation in the order in which servers do, and says what is
// wrong with it.
func read(body []byte) (q query, refusal string) {
	if !jsontext.Value(body).IsValid() {
		return q, "bad JSON"
	}
	top := object(jsontext.Value(body))
	if top == nil {
		return q, "the body is no object"
	}
	event := object(top["event"])
	if event == nil {
		return q, "the event is no object"
	}
	q.event = top["event"]
	if q.phase = word(event["type"]); !slices.Contains(phases, q.phase) {
		return q, "no such type"
	}
	if raw, ok := top["_omnigent_elicitation_id"]; ok {
		if q.id = word(raw); !goodID.MatchString(q.id) {
			return q, "no such form of id"
		}
	}
	data := object(event["data"])
	if data == nil && (q.phase != "PHASE_REQUEST" || event["data"].Kind() != '"') {
		return q, "the data is no object"
	}
	switch q.phase {
	case "PHASE_TOOL_CALL":
		if word(data["name"]) == "" {
			return q, "the tool has no name"
		}
	case "PHASE_TOOL_RESULT":
		if word(object(event["request_data"])["name"]) == "" && word(event["target"]) == "" {
			return q, "the tool has no name"
		}
	}
	if raw, ok := event["context"]; ok && raw.Kind() != '{' {
		return q, "the context is no object"
	}
	return q, ""
}

// word reads a string; "" for anything else.
func word(raw jsontext.Value) string {
	var s string
	if raw.Kind() != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
