package fakemodel

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// object is a JSON object that is written in one place and never read.
type object map[string]any

// reply writes a turn in the form that the request asked for.
func (s *Server) reply(w http.ResponseWriter, r *Request, t Turn) {
	if t.Status != 0 {
		fail(w, t.Status, "api_error", "the script says so")
		return
	}
	if t.Text == "" && len(t.Calls) == 0 {
		t.Text = "done"
	}
	s.mu.Lock()
	calls := make([]Call, 0, len(t.Calls))
	for _, c := range t.Calls {
		if c.ID == "" {
			s.calls++
			c.ID = CallID(s.calls)
		}
		c.Input = cmp.Or(c.Input, "{}")
		calls = append(calls, c)
	}
	t.Calls = calls
	tokens := s.tokens(t)
	s.mu.Unlock()

	if r.spoken != nil {
		if err := streamResponses(w, r, t, tokens); err != nil {
			s.fault(fmt.Errorf("answering request %d: %w", r.Seq, err))
		}
		return
	}
	stop := "end_turn"
	if len(t.Calls) > 0 {
		stop = "tool_use"
	}
	message := object{
		"id": fmt.Sprintf("msg_guard_%04d", r.Seq), "type": "message", "role": "assistant", "model": r.Model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": object{"input_tokens": tokens, "output_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
	}
	var err error
	if r.Stream {
		err = stream(w, message, t, stop)
	} else {
		err = plain(w, message, t, stop)
	}
	if err != nil {
		s.fault(fmt.Errorf("answering request %d: %w", r.Seq, err))
	}
}

// tokens is what a turn reports as used. The caller holds the lock.
func (s *Server) tokens(t Turn) int { return cmp.Or(t.Tokens, s.script.Tokens, 10) }

// plain writes the message as one JSON object. It can't carry an input that is
// no JSON; a stream can.
func plain(w http.ResponseWriter, message object, t Turn, stop string) error {
	content := []any{}
	if t.Text != "" {
		content = append(content, object{"type": "text", "text": t.Text})
	}
	for _, c := range t.Calls {
		content = append(content, object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": jsontext.Value(c.Input)})
	}
	message["content"], message["stop_reason"] = content, stop
	data, err := encode(message)
	if err != nil {
		fail(w, http.StatusInternalServerError, "api_error", "the script's input is no JSON")
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data) // a client that hung up loses its own answer
	return nil
}

// stream writes the message as server-sent events, each block whole.
func stream(w http.ResponseWriter, message object, t Turn, stop string) error {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	e := &events{w: w}
	e.send("message_start", object{"message": message})
	index := 0
	block := func(start, delta object) {
		e.send("content_block_start", object{"index": index, "content_block": start})
		e.send("content_block_delta", object{"index": index, "delta": delta})
		e.send("content_block_stop", object{"index": index})
		index++
	}
	if t.Text != "" {
		block(object{"type": "text", "text": ""}, object{"type": "text_delta", "text": t.Text})
	}
	for _, c := range t.Calls {
		block(object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": object{}},
			object{"type": "input_json_delta", "partial_json": c.Input})
	}
	e.send("message_delta", object{"delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": 5}})
	e.send("message_stop", object{})
	return e.err
}

type events struct {
	w   http.ResponseWriter
	err error
}

func (e *events) send(name string, data object) {
	if e.err != nil {
		return
	}
	data["type"] = name
	text, err := encode(data)
	if err != nil {
		e.err = err
		return
	}
	fmt.Fprintf(e.w, "event: %s\ndata: %s\n\n", name, text)
	if f, ok := e.w.(http.Flusher); ok {
		f.Flush()
	}
}

// encode writes equal objects alike. A call's input may be any JSON: what a
// host makes of doubled keys is for a test to find out.
func encode(v object) ([]byte, error) {
	data, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if err != nil {
		return nil, fmt.Errorf("encoding an answer: %w", err)
	}
	return data, nil
}

// fail writes an error in the API's form.
func fail(w http.ResponseWriter, status int, kind, text string) {
	data, err := encode(object{"type": "error", "error": object{"type": kind, "message": text}})
	if err != nil {
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data) // a client that hung up loses its own answer
}
