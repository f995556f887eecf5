package fakemodel

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Wire forms of the Responses API. Its conversation is a flat list of items: a
// call and its result stand beside the messages.
type (
	responsesJSON struct {
		Model        string         `json:"model"`
		Stream       bool           `json:"stream"`
		Instructions string         `json:"instructions"`
		Input        jsontext.Value `json:"input"`
		Tools        []toolJSON     `json:"tools"`
	}
	toolJSON struct {
		Type        string         `json:"type"`
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Parameters  jsontext.Value `json:"parameters"`
		Tools       []toolJSON     `json:"tools"` // of a namespace
	}
	itemJSON struct {
		Type      string         `json:"type"`
		Role      string         `json:"role"`
		Content   jsontext.Value `json:"content"`
		Call      string         `json:"call_id"`
		Name      string         `json:"name"`
		Namespace string         `json:"namespace"`
		Arguments string         `json:"arguments"`
		Input     string         `json:"input"`
		Output    jsontext.Value `json:"output"`
		Tools     []toolJSON     `json:"tools"` // of additional_tools, where newer models have theirs
	}
)

// spoken is how a client of the Responses API wants a tool to be called.
type spoken struct {
	name, namespace string
	free            bool // its input is free text, not JSON
}

// parseResponses reads a body of the Responses API into the same form as one of
// the Messages API, so that a script needn't know which client it plays for.
func parseResponses(body []byte) (*Request, error) {
	var b responsesJSON
	if err := json.Unmarshal(body, &b, jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if !b.Stream {
		return nil, fmt.Errorf("%w: the scripted model speaks the Responses API to a stream alone", ErrRequest)
	}
	r := &Request{Model: b.Model, Stream: true, Body: body, spoken: map[string]spoken{}}
	if b.Instructions != "" {
		r.System = append(r.System, b.Instructions)
	}
	for _, t := range b.Tools {
		r.offer(t, "")
	}
	items, err := inputItems(b.Input)
	if err != nil {
		return nil, err
	}
	for _, i := range items {
		if err := r.hear(i); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// offer takes down a tool under the name that the client gives it elsewhere: an
// MCP tool's is its server's and its own, any other namespace is left out.
func (r *Request) offer(t toolJSON, namespace string) {
	if t.Type == "namespace" && namespace == "" {
		for _, inner := range t.Tools {
			r.offer(inner, t.Name)
		}
		return
	}
	name := t.Name
	if name == "" {
		name = t.Type // one that the service runs itself
	}
	plain := spoken{name: name, namespace: namespace, free: t.Type == "custom"}
	name = flat(namespace, name)
	r.spoken[name] = plain
	r.Tools = append(r.Tools, Tool{Name: name, Description: t.Description, Schema: t.Parameters})
}

func flat(namespace, name string) string {
	if strings.HasPrefix(namespace, "mcp__") {
		return namespace + "__" + name
	}
	return name
}

// inputItems reads the conversation, which is a text or a list of items.
func inputItems(input jsontext.Value) ([]itemJSON, error) {
	if input.Kind() == '"' {
		return []itemJSON{{Type: "message", Role: "user", Content: input}}, nil
	}
	var items []itemJSON
	if err := json.Unmarshal(input, &items, jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	return items, nil
}

// hear adds an item of the conversation; those that say nothing to the model,
// such as reasoning, are left out.
func (r *Request) hear(i itemJSON) error {
	switch i.Type {
	case "additional_tools":
		for _, t := range i.Tools {
			r.offer(t, "")
		}
	case "message", "":
		content, err := blocks(i.Content)
		if err != nil {
			return err
		}
		r.Messages = append(r.Messages, Message{Role: i.Role, Blocks: content})
	case "function_call":
		r.add("assistant", Block{Type: "tool_use", ID: i.Call, Name: flat(i.Namespace, i.Name), Input: jsontext.Value(i.Arguments)})
	case "custom_tool_call":
		text, err := jsontext.AppendQuote(nil, i.Input)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrRequest, err)
		}
		r.add("assistant", Block{Type: "tool_use", ID: i.Call, Name: flat(i.Namespace, i.Name), Input: text})
	case "function_call_output", "custom_tool_call_output":
		text, err := texts(i.Output)
		if err != nil {
			return err
		}
		r.add("user", Block{Type: "tool_result", ID: i.Call, Text: text})
	}
	return nil
}

func (r *Request) add(role string, b Block) {
	r.Messages = append(r.Messages, Message{Role: role, Blocks: []Block{b}})
}
