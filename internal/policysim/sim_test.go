package policysim

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

const evaluate = "/v1/sessions/s/policies/evaluate"

func start(t *testing.T, s *Server) *Server {
	t.Helper()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// post asks the server, and returns its status and answer.
func (s *Server) post(t *testing.T, path, kind, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	client := &http.Client{Timeout: 10 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

const call = `{"event":{"type":"PHASE_TOOL_CALL","target":"","data":{"name":"Bash","arguments":{}},"context":{}}}`

// TestChecks: what servers refuse is refused, in their order.
func TestChecks(t *testing.T) {
	s := start(t, &Server{Sessions: []string{"s"}})
	for _, kind := range []string{"application/json", "Application/JSON; charset=utf-8", "application/vnd.x+json"} {
		if status, text := s.post(t, evaluate, kind, call); status != 200 || text != `{"result":"POLICY_ACTION_ALLOW"}` {
			t.Errorf("%s: %d %s", kind, status, text)
		}
	}
	for _, kind := range []string{"", "text/plain", "application/xml", "json"} {
		if status, _ := s.post(t, evaluate, kind, call); status != 415 {
			t.Errorf("%q: %d", kind, status)
		}
	}
	if status, _ := s.post(t, "/v1/sessions/other/policies/evaluate", "application/json", call); status != 404 {
		t.Errorf("another session: %d", status)
	}
	event := func(phase, more string) string { return `{"event":{"type":"` + phase + `"` + more + `}}` }
	bad := []string{
		"", "x", "[]", "7", "null", `{}`, `{"event":null}`, `{"event":[]}`, `{"event":{}}`, event("PHASE_UNKNOWN", ""), `{"event":{"type":7,"data":{}}}`,
		event("PHASE_TOOL_CALL", `,"data":{"name":""}`), event("PHASE_TOOL_CALL", `,"data":{"name":7}`), event("PHASE_TOOL_CALL", `,"data":{}`),
		event("PHASE_TOOL_RESULT", `,"data":{"result":1}`), event("PHASE_TOOL_RESULT", `,"data":{"result":1},"request_data":"x"`),
		event("PHASE_TOOL_CALL", `,"data":{"name":"x"},"context":7`), `{"_omnigent_elicitation_id":"elicit_x","event":{"type":"PHASE_REQUEST","data":{}}}`,
	}
	for _, phase := range phases {
		for _, data := range []string{"null", "false", "0", `[]`, "[1]", "7"} {
			bad = append(bad, event(phase, `,"data":`+data))
		}
		if phase != "PHASE_REQUEST" {
			bad = append(bad, event(phase, `,"data":"x"`))
		}
	}
	for _, body := range bad {
		if status, text := s.post(t, evaluate, "application/json", body); status != 400 || !strings.Contains(text, `"code":"invalid_input"`) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	for _, body := range []string{
		event("PHASE_REQUEST", `,"data":"x"`), event("PHASE_REQUEST", `,"data":{}`), event("PHASE_TOOL_RESULT", `,"data":{"result":1},"target":"x"`),
		event("PHASE_TOOL_RESULT", `,"data":{"result":1},"request_data":{"name":"x"}`), event("PHASE_LLM_REQUEST", `,"data":{}`),
	} {
		if status, text := s.post(t, evaluate, "application/json", body); status != 200 {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
}

// TestAskIsHeld: until a person answers by the route for that.
func TestAskIsHeld(t *testing.T) {
	s := start(t, &Server{Policies: []Policy{Always("p", Ask, "why")}})
	const id = "elicit_evaluate_0123456789abcdef0123456789abcdef"
	body := strings.TrimSuffix(call, "}") + `,"_omnigent_elicitation_id":"` + id + `"}`
	for action, want := range map[string]string{"accept": `{"result":"POLICY_ACTION_ALLOW"}`, "decline": `{"result":"POLICY_ACTION_DENY","reason":"p: why declined"}`} {
		done := make(chan string)
		go func() {
			_, text := s.post(t, evaluate, "application/json", body)
			done <- text
		}()
		for len(s.Cards()) == 0 {
			time.Sleep(time.Millisecond)
		}
		if status, _ := s.post(t, "/v1/sessions/s/elicitations/"+id+"/resolve", "application/json", fmt.Sprintf(`{"action":%q}`, action)); status != 202 {
			t.Errorf("answering: %d", status)
		}
		if text := <-done; text != want {
			t.Errorf("%s: %s", action, text)
		}
	}
	if status, _ := s.post(t, "/v1/sessions/s/elicitations/"+id+"/resolve", "application/json", `{"action":"accept"}`); status != 404 {
		t.Errorf("answering nobody: %d", status)
	}
	if status, _ := s.post(t, "/v1/other", "application/json", ""); status != 404 {
		t.Errorf("another route: %d", status)
	}
}
