package fakemodel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

// The tools of a request of the Responses API, one of each kind that Codex sends.
const responsesTools = `[{"type":"function","name":"exec_command","description":"runs","parameters":{"type":"object"}},` +
	`{"type":"custom","name":"apply_patch"},{"type":"web_search"},` +
	`{"type":"namespace","name":"mcp__tiny","tools":[{"type":"function","name":"touch"}]},` +
	`{"type":"namespace","name":"agents","tools":[{"type":"function","name":"spawn_agent"}]}]`

// responsesBody is a request in the form that Codex sends; items go behind the prompt.
func responsesBody(prompt string, items ...string) string {
	all := append([]string{
		`{"type":"message","role":"developer","content":[{"type":"input_text","text":"be good"}]}`,
		`{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment/>"}]}`,
		fmt.Sprintf(`{"type":"message","role":"user","content":[{"type":"input_text","text":%q}]}`, prompt),
	}, items...)
	return `{"model":"m","stream":true,"instructions":"be brief","input":[` + strings.Join(all, ",") + `],"tools":` + responsesTools + `}`
}

type responsesEvent struct {
	Type     string   `json:"type"`
	Sequence int      `json:"sequence_number"`
	Item     itemJSON `json:"item"`
	Response struct {
		Output []itemJSON `json:"output"`
		Usage  struct {
			Total int `json:"total_tokens"`
		} `json:"usage"`
	} `json:"response"`
}

// askResponses posts a turn and gives the items that were said to be done, and the tokens.
func askResponses(t *testing.T, s *Server, body string) ([]itemJSON, int) {
	t.Helper()
	status, kind, data := post(t, s, s.Key(), responsesPath, body)
	if status != 200 || kind != "text/event-stream" {
		t.Fatalf("%d %s %s", status, kind, data)
	}
	var done []itemJSON
	for i, chunk := range strings.Split(strings.TrimSpace(string(data)), "\n\n") {
		_, text, _ := strings.Cut(chunk, "data: ")
		var e responsesEvent
		if err := json.Unmarshal([]byte(text), &e); err != nil || e.Sequence != i {
			t.Fatalf("event %d: %s: %v", i, text, err)
		}
		switch e.Type {
		case "response.output_item.done":
			done = append(done, e.Item)
		case "response.completed":
			if !cmp.Equal(e.Response.Output, done) {
				t.Errorf("the end repeats other items than %+v: %+v", done, e.Response.Output)
			}
			return done, e.Response.Usage.Total
		}
	}
	t.Fatalf("the stream has no end: %s", data)
	return nil, 0
}

// Each kind of tool is called in the form that the client expects.
func TestResponsesCalls(t *testing.T) {
	s := start(t, Script{Tokens: 95, Steps: []Step{
		UseAll(Call{Name: "exec_command", Input: `{"cmd":"id",  "x":1}`}, Call{Name: "apply_patch", Input: "*** Begin\n\"+x"},
			Call{Name: "mcp__tiny__touch"}, Call{Name: "spawn_agent", ID: "mine"}, Call{Name: "unknown"},
			Call{Item: `{"type":"web_search_call","id":"ws_1","status":"completed"}`}),
		func(context.Context, *Request) (Turn, error) { return Turn{Status: 500}, nil },
		Say("bye"),
	}})
	got, tokens := askResponses(t, s, responsesBody("go"))
	want := []itemJSON{
		{Type: "function_call", Call: CallID(1), Name: "exec_command", Arguments: `{"cmd":"id",  "x":1}`},
		{Type: "custom_tool_call", Call: CallID(2), Name: "apply_patch", Input: "*** Begin\n\"+x"},
		{Type: "function_call", Call: CallID(3), Name: "touch", Namespace: "mcp__tiny", Arguments: "{}"},
		{Type: "function_call", Call: "mine", Name: "spawn_agent", Namespace: "agents", Arguments: "{}"},
		{Type: "function_call", Call: CallID(4), Name: "unknown", Arguments: "{}"},
		{Type: "web_search_call"},
	}
	if diff := cmp.Diff(want, got); diff != "" || tokens != 100 {
		t.Errorf("%d tokens, %s", tokens, diff)
	}
	if status, _, data := post(t, s, s.Key(), responsesPath, responsesBody("go")); status != 500 || !strings.Contains(string(data), `"error"`) {
		t.Errorf("%d %s", status, data)
	}
	if got, _ := askResponses(t, s, responsesBody("go")); len(got) != 1 || got[0].Role != "assistant" || !strings.Contains(string(got[0].Content), "bye") {
		t.Errorf("said %+v", got)
	}
	if s.Err() != nil {
		t.Error(s.Err())
	}
}

// What the client sent is read as if it spoke the Messages API.
func TestResponsesRequest(t *testing.T) {
	s := start(t, Script{Others: []Conversation{{Name: "helper", Match: Prompted("HELP"), Steps: []Step{Say("h1")}}}})
	askResponses(t, s, responsesBody("go",
		`{"type":"reasoning","encrypted_content":"x"}`,
		`{"type":"function_call","name":"exec_command","call_id":"a","arguments":"{\"cmd\":\"HELP\"}"}`,
		`{"type":"custom_tool_call","name":"apply_patch","call_id":"b","input":"*** \"p\""}`,
		`{"type":"function_call","name":"touch","namespace":"mcp__tiny","call_id":"c","arguments":"{}"}`,
		`{"type":"function_call_output","call_id":"a","output":"first, HELP"}`,
		`{"type":"custom_tool_call_output","call_id":"b","output":[{"type":"input_text","text":"second"}]}`,
		`{"type":"function_call_output","call_id":"c","output":"third"}`))
	r := s.Requests()[0]
	want := []Result{{ID: "a", Name: "exec_command", Text: "first, HELP", Conversation: Main}, {ID: "b", Name: "apply_patch", Text: "second", Conversation: Main},
		{ID: "c", Name: "mcp__tiny__touch", Text: "third", Conversation: Main}}
	if diff := cmp.Diff(want, r.Results()); diff != "" {
		t.Error(diff)
	}
	for _, tool := range []string{"exec_command", "apply_patch", "mcp__tiny__touch", "spawn_agent", "web_search"} {
		if !r.Offers(tool) {
			t.Errorf("%s isn't offered: %+v", tool, r.Tools)
		}
	}
	if r.Text() != "be brief\nbe good\n<environment/>\ngo\n\n\n\nfirst, HELP\nsecond\nthird" {
		t.Errorf("the model was told %q", r.Text())
	}
	if got, _ := askResponses(t, s, responsesBody("HELP me")); !strings.Contains(string(got[0].Content), "h1") {
		t.Errorf("a subagent's turn was %+v", got)
	}
	askResponses(t, s, strings.Replace(responsesBody("short", `{"type":"additional_tools","tools":[{"type":"custom","name":"exec"}]}`), responsesTools, "[]", 1))
	if r := s.Requests()[2]; !r.Offers("exec") || r.Conversation != Main {
		t.Errorf("tools of an item: %+v in %q", r.Tools, r.Conversation)
	}
	askResponses(t, s, `{"stream":true,"input":"title?"}`)
	if r := s.Requests()[3]; r.Conversation != Aside || r.Text() != "title?" {
		t.Errorf("an aside: %+v", r)
	}
}

func TestResponsesRefused(t *testing.T) {
	s := start(t, Script{})
	for name, body := range map[string]string{
		"no JSON": "{", "no stream": `{"input":"x"}`, "no input": `{"stream":true}`, "items of a wrong form": `{"stream":true,"input":[1]}`,
		"content of a wrong form": `{"stream":true,"input":[{"type":"message","content":[1]}]}`,
		"output of a wrong form":  `{"stream":true,"input":[{"type":"function_call_output","output":[1]}]}`,
	} {
		if status, _, data := post(t, s, s.Key(), responsesPath, body); status != 400 {
			t.Errorf("%s: %d %s", name, status, data)
		}
	}
	if status, _, _ := post(t, s, "guess", responsesPath, responsesBody("go")); status != 401 || s.Count() != 0 {
		t.Errorf("%d without the key, %d turns", status, s.Count())
	}
}

func FuzzParseResponses(f *testing.F) {
	f.Add([]byte(responsesBody("go", `{"type":"function_call","name":"x","call_id":"a","arguments":"{"}`)))
	f.Add([]byte(`{"stream":true,"input":[{"type":"additional_tools","tools":[{"type":"namespace","name":"a","tools":[{"type":"namespace"}]}]}]}`))
	f.Add([]byte(`{"stream":true,"input":[{"type":"custom_tool_call","input":"\ud800"},{"content":"x"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseResponses(data)
		if err != nil {
			if !errors.Is(err, ErrRequest) {
				t.Fatalf("error of no class: %v", err)
			}
			return
		}
		_, _, _ = r.Text(), r.Results(), Prompted("x")(r)
		for _, tool := range r.Tools {
			if _, known := r.spoken[tool.Name]; !known || !r.Offers(tool.Name) {
				t.Fatalf("offers %q and doesn't know how it is called", tool.Name)
			}
		}
	})
}
