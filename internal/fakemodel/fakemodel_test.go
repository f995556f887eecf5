package fakemodel

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, script Script) *Server {
	t.Helper()
	s, err := Start(script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// message is an answer read back from either form.
type message struct {
	Status     int
	Content    []blockJSON `json:"content"`
	StopReason string      `json:"stop_reason"`
}

func post(t *testing.T, s *Server, key, path, body string) (int, string, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", key)
	req.Header.Set("Anthropic-Version", "2023-06-01")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), data
}

// ask posts a request for a turn and reads the answer in the form it has.
func ask(t *testing.T, s *Server, body string) message {
	t.Helper()
	status, kind, data := post(t, s, s.Key(), "/v1/messages", body)
	m := message{Status: status}
	if kind == "text/event-stream" {
		readEvents(t, string(data), &m)
		return m
	}
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return m
}

// readEvents puts a message together as a client does.
func readEvents(t *testing.T, text string, m *message) {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(text))
	var order []string
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type  string    `json:"type"`
			Block blockJSON `json:"content_block"`
			Delta struct {
				Text       string `json:"text"`
				Partial    string `json:"partial_json"`
				StopReason string `json:"stop_reason"`
			} `json:"delta"`
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		order = append(order, e.Type)
		switch e.Type {
		case "content_block_start":
			m.Content = append(m.Content, e.Block)
		case "content_block_delta":
			b := &m.Content[len(m.Content)-1]
			b.Text += e.Delta.Text
			if e.Delta.Partial != "" {
				b.Input = jsontext.Value(e.Delta.Partial)
			}
		case "message_delta":
			m.StopReason = e.Delta.StopReason
		}
	}
	if order[0] != "message_start" || order[len(order)-1] != "message_stop" {
		t.Errorf("events in the order %v", order)
	}
}

// body is a request in the form that the client sends; results are pairs of
// call id and text.
func body(stream bool, prompt string, results ...string) string {
	messages := fmt.Sprintf(`{"role":"user","content":%q}`, prompt)
	for i := 0; i < len(results); i += 2 {
		messages += fmt.Sprintf(`,{"role":"assistant","content":[{"type":"tool_use","id":%q,"name":"Bash","input":{}}]},`+
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"is_error":true,"content":[{"type":"text","text":%q}]}]}`, results[i], results[i], results[i+1])
	}
	return fmt.Sprintf(`{"model":"m","stream":%v,"system":[{"type":"text","text":"be good","cache_control":{}}],"messages":[%s],"tools":[{"name":"Bash","description":"runs","input_schema":{}}]}`, stream, messages)
}

func TestBothForms(t *testing.T) {
	for _, streamed := range []bool{false, true} {
		t.Run(fmt.Sprint("stream ", streamed), func(t *testing.T) {
			s := start(t, Script{Steps: []Step{
				func(context.Context, *Request) (Turn, error) {
					return Turn{Text: "two of them", Calls: []Call{{Name: "Bash", Input: `{"b":1,  "a":"x\n"}`}, {Name: "Read", ID: "mine"}}}, nil
				},
				func(context.Context, *Request) (Turn, error) { return Turn{Status: 500}, nil },
				Say("bye"),
			}})
			m := ask(t, s, body(streamed, "go"))
			if m.Status != 200 || m.StopReason != "tool_use" || len(m.Content) != 3 || m.Content[0].Text != "two of them" {
				t.Fatalf("got %+v", m)
			}
			if c := m.Content[1]; c.ID != CallID(1) || c.Name != "Bash" || streamed && string(c.Input) != `{"b":1,  "a":"x\n"}` {
				t.Errorf("first call %+v", c)
			}
			if c := m.Content[2]; c.ID != "mine" || c.Name != "Read" || string(c.Input) != `{}` {
				t.Errorf("second call %+v", c)
			}
			if m := ask(t, s, body(streamed, "go")); m.Status != 500 {
				t.Errorf("status %d, want the script's 500", m.Status)
			}
			if m := ask(t, s, body(streamed, "go")); m.StopReason != "end_turn" || m.Content[0].Text != "bye" {
				t.Errorf("got %+v", m)
			}
			if m := ask(t, s, body(streamed, "go")); m.Content[0].Text != "done" {
				t.Errorf("after the last step: %+v", m)
			}
			if s.Count() != 4 || s.Err() != nil {
				t.Errorf("%d requests, faults %v", s.Count(), s.Err())
			}
		})
	}
}

// TestConversationsAreToldApart plays a subagent between two turns of the main
// conversation, and a title.
func TestConversationsAreToldApart(t *testing.T) {
	s := start(t, Script{
		Steps:  []Step{Say("m1"), Say("m2")},
		Others: []Conversation{{Name: "helper", Match: Prompted("HELP"), Steps: []Step{Say("h1")}}},
		Aside:  Say("a title"),
	})
	for _, c := range []struct{ body, want, conversation string }{
		{body(true, "go"), "m1", Main},
		{body(true, "please HELP me"), "h1", "helper"},
		{`{"messages":[{"role":"user","content":"title?"}]}`, "a title", Aside},
		{body(true, "go", "x", "HELP in a result is no prompt"), "m2", Main},
		{body(true, "please HELP me"), "done", "helper"},
	} {
		m := ask(t, s, c.body)
		all := s.Requests()
		if m.Content[0].Text != c.want || all[len(all)-1].Conversation != c.conversation {
			t.Errorf("got %q in %q, want %q in %q", m.Content[0].Text, all[len(all)-1].Conversation, c.want, c.conversation)
		}
	}
}

// TestStepTakesItsWordsFromTheRequest is how the tests of recovery work: tool
// and token are known from what the client sent, or the script fails.
func TestStepTakesItsWordsFromTheRequest(t *testing.T) {
	recover := func(_ context.Context, r *Request) (Turn, error) {
		m, err := r.Find(regexp.MustCompile(`call (\w+) with (\d+)`))
		if err != nil {
			return Turn{}, err
		}
		return Turn{Calls: []Call{{Name: m[0], Input: `{"token":"` + m[1] + `"}`}}}, nil
	}
	s := start(t, Script{Steps: []Step{recover, recover, Say("never said")}})
	m := ask(t, s, body(false, "go", "x", "denied: call mcp__guard__recover with 4711"))
	if c := m.Content[0]; c.Name != "mcp__guard__recover" || string(c.Input) != `{"token":"4711"}` {
		t.Errorf("called %+v", c)
	}
	if m = ask(t, s, body(false, "go")); !strings.Contains(m.Content[0].Text, "the script ended") {
		t.Errorf("got %+v", m)
	}
	if m = ask(t, s, body(false, "go")); m.Content[0].Text != "done" {
		t.Errorf("a failed step must end its conversation, got %+v", m)
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), `step 2 of conversation "main"`) {
		t.Errorf("Err is %v", err)
	}
}

func TestAfterDemands(t *testing.T) {
	want := errors.New("not yet")
	s := start(t, Script{Steps: []Step{After(func(context.Context, *Request) error { return nil }, Say("yes")),
		After(func(context.Context, *Request) error { return want }, Say("no"))}})
	if m := ask(t, s, body(true, "go")); m.Content[0].Text != "yes" {
		t.Errorf("got %+v", m)
	}
	ask(t, s, body(true, "go"))
	if !errors.Is(s.Err(), want) {
		t.Errorf("Err is %v", s.Err())
	}
}

func TestResultsAreToldOnceAndAwaited(t *testing.T) {
	s := start(t, Script{})
	got := make(chan Result)
	go func() {
		r, err := s.Result(t.Context(), "b")
		if err != nil {
			t.Error(err)
		}
		got <- r
	}()
	ask(t, s, body(true, "go", "a", "first"))
	ask(t, s, body(true, "go", "a", "first", "b", "second"))
	want := []Result{{"a", "Bash", "first", Main, true}, {"b", "Bash", "second", Main, true}}
	if r := <-got; r != want[1] {
		t.Errorf("awaited %+v", r)
	}
	if diff := cmp.Diff(want, s.Results()); diff != "" {
		t.Error(diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Result(ctx, "c"); !errors.Is(err, context.Canceled) {
		t.Errorf("a result that never comes: %v", err)
	}
}

func TestRecordKeepsNoSecret(t *testing.T) {
	s := start(t, Script{})
	ask(t, s, body(true, "go"))
	r := s.Requests()[0]
	if h := r.Header; h.Get("X-Api-Key") != "" || h.Get("Anthropic-Version") == "" {
		t.Errorf("kept headers %v", h)
	}
	if !cmp.Equal(r.System, []string{"be good"}) || !r.Offers("Bash") || r.Offers("bash") || r.Text() != "be good\ngo" || len(r.Body) == 0 {
		t.Errorf("kept %+v", r)
	}
	if _, err := r.Last(); err == nil {
		t.Error("a request without result has a last one")
	}
}

func TestOtherRequests(t *testing.T) {
	s := start(t, Script{Steps: []Step{Say("x")}, Tokens: 77})
	for _, c := range []struct {
		name, key, path, body string
		status                int
		want                  string
	}{
		{"no key", "guess", "/v1/messages", body(true, "go"), 401, "authentication_error"},
		{"no key to count", "", "/v1/messages/count_tokens", "{}", 401, "authentication_error"},
		{"count", s.Key(), "/v1/messages/count_tokens", body(true, "go"), 200, `{"input_tokens":77}`},
		{"unknown path", s.Key(), "/v1/complete", "{}", 404, "not_found_error"},
		{"no JSON", s.Key(), "/v1/messages", "{", 400, "invalid_request_error"},
		{"content of a wrong form", s.Key(), "/v1/messages", `{"messages":[{"content":[1]}]}`, 400, "invalid_request_error"},
		{"two bodies", s.Key(), "/v1/messages", "{}{}", 400, "invalid_request_error"},
		{"too long", s.Key(), "/v1/messages", strings.Repeat(" ", MaxBody+1), 413, "request_too_large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, _, data := post(t, s, c.key, c.path, c.body)
			if status != c.status || !strings.Contains(string(data), c.want) {
				t.Errorf("%d %s, want %d %s", status, data, c.status, c.want)
			}
		})
	}
	if s.Count() != 0 || s.Refused() != 2 || len(s.Others()) != 2 {
		t.Errorf("%d turns, %d refused, others %v", s.Count(), s.Refused(), s.Others())
	}
}

// TestCloseEndsWhatRuns closes the server under a step that waits for ever.
func TestCloseEndsWhatRuns(t *testing.T) {
	entered, left := make(chan struct{}), make(chan error, 1)
	s, err := Start(Script{Steps: []Step{func(ctx context.Context, _ *Request) (Turn, error) {
		close(entered)
		<-ctx.Done()
		left <- ctx.Err()
		return Turn{}, ctx.Err()
	}}})
	if err != nil {
		t.Fatal(err)
	}
	hung := make(chan struct{})
	go func() {
		defer close(hung)
		req, _ := http.NewRequest(http.MethodPost, s.URL()+"/v1/messages", strings.NewReader(body(true, "go")))
		req.Header.Set("Authorization", "Bearer "+s.Key())
		if resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}()
	<-entered
	waiting := make(chan error)
	go func() {
		_, err := s.Result(context.Background(), "never")
		waiting <- err
	}()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the step ended with %v", err)
	}
	if err := <-waiting; err == nil {
		t.Error("waiting for a result survived the server")
	}
	<-hung
	if s.Err() != nil {
		t.Errorf("a closed server is no fault of the script: %v", s.Err())
	}
}

func TestScriptNeedsNames(t *testing.T) {
	for name, c := range map[string]Conversation{
		"no name": {Match: Prompted("x")}, "no match": {Name: "x"}, "main's name": {Name: Main, Match: Prompted("x")},
	} {
		if _, err := Start(Script{Others: []Conversation{c}}); err == nil {
			t.Errorf("%s: started", name)
		}
	}
}

// TestPlainNeedsJSON: a stream may carry a broken input, a plain answer can't.
func TestPlainNeedsJSON(t *testing.T) {
	s := start(t, Script{Steps: []Step{Use("Bash", "{broken"), Use("Bash", "{broken")}})
	if m := ask(t, s, body(true, "go")); string(m.Content[0].Input) != "{broken" {
		t.Errorf("streamed %+v", m)
	}
	if m := ask(t, s, body(false, "go")); m.Status != 500 || s.Err() == nil {
		t.Errorf("plain %+v, faults %v", m, s.Err())
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(body(true, "go", "a", "b")))
	f.Add([]byte(`{"system":"s","messages":[{"role":"user","content":null},{"content":[{"type":"tool_result","content":"x"}]}]}`))
	f.Add([]byte(`{"messages":[{"content":[{"type":"tool_result","content":[{"text":"\ud800"}]}]}],"tools":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parse(data)
		if err != nil {
			if !errors.Is(err, ErrRequest) {
				t.Fatalf("error of no class: %v", err)
			}
			return
		}
		_, _, _ = r.Text(), r.Results(), Prompted("x")(r)
		if _, err := r.Last(); (err == nil) != (len(r.Results()) > 0) {
			t.Fatal("Last and Results disagree")
		}
	})
}
