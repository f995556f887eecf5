package fakemodel

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
)

// streamResponses writes a turn as the Responses API streams it: each item whole,
// since clients take a call from the event that says it is done.
func streamResponses(w http.ResponseWriter, r *Request, t Turn, tokens int) error {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	e := &events{w: w}
	id := fmt.Sprintf("resp_guard_%04d", r.Seq)
	count := 0
	send := func(name string, data object) {
		data["sequence_number"] = count
		count++
		e.send(name, data)
	}
	send("response.created", object{"response": object{"id": id, "status": "in_progress", "output": []any{}}})
	items := r.items(t)
	for i, item := range items {
		send("response.output_item.added", object{"output_index": i, "item": item})
		send("response.output_item.done", object{"output_index": i, "item": item})
	}
	send("response.completed", object{"response": object{
		"id": id, "status": "completed", "output": items,
		"usage": object{
			"input_tokens": tokens, "input_tokens_details": object{"cached_tokens": 0},
			"output_tokens": 5, "output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": tokens + 5,
		},
	}})
	return e.err
}

// items are a turn's words and calls. A call's form goes by what the client
// offers under that name; a tool that it doesn't offer is called as a function.
func (r *Request) items(t Turn) []any {
	items := []any{}
	if t.Text != "" {
		items = append(items, object{
			"type": "message", "role": "assistant", "id": fmt.Sprintf("msg_guard_%04d", r.Seq), "status": "completed",
			"content": []any{object{"type": "output_text", "text": t.Text, "annotations": []any{}}},
		})
	}
	for _, c := range t.Calls {
		if c.Item != "" {
			items = append(items, jsontext.Value(c.Item))
			continue
		}
		how := r.spoken[c.Name]
		item := object{"id": "item_" + c.ID, "call_id": c.ID, "name": cmp.Or(how.name, c.Name), "status": "completed"}
		if how.namespace != "" {
			item["namespace"] = how.namespace
		}
		if how.free {
			item["type"], item["input"] = "custom_tool_call", c.Input
		} else {
			item["type"], item["arguments"] = "function_call", c.Input
		}
		items = append(items, item)
	}
	return items
}
