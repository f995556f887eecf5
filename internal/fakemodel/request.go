package fakemodel

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Request is one request for a turn as the client sent it.
type Request struct {
	Seq          int    // counts the requests for a turn, from 1
	Conversation string // Main, Aside or the name of one of Script.Others
	Step         int    // index of the step that answered it; past the last when none did
	Model        string
	Stream       bool
	System       []string
	Messages     []Message
	Tools        []Tool
	Header       http.Header // without those that carry secrets
	Body         []byte

	spoken map[string]spoken // of the Responses API: how each tool is called; nil: the Messages API
}

// Message is one message of the conversation so far.
type Message struct {
	Role   string
	Blocks []Block
}

// Block is one content block. Text is that of a text or tool_result block, ID a
// tool_use's own id or the one that a tool_result answers.
type Block struct {
	Type, Text, ID, Name string
	Input                jsontext.Value
	IsError              bool
}

// Tool is a tool that the client offers.
type Tool struct {
	Name, Description string
	Schema            jsontext.Value
}

// Result is what a tool call came to, as the model was told.
type Result struct {
	ID, Name, Text, Conversation string
	IsError                      bool
}

// ErrRequest is what errors about a client's request wrap.
var ErrRequest = errors.New("no request for a turn")

// Wire forms. Fields that a client adds are ignored: the body is kept whole.
type (
	bodyJSON struct {
		Model    string         `json:"model"`
		Stream   bool           `json:"stream"`
		System   jsontext.Value `json:"system"`
		Messages []struct {
			Role    string         `json:"role"`
			Content jsontext.Value `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Name        string         `json:"name"`
			Description string         `json:"description"`
			Schema      jsontext.Value `json:"input_schema"`
		} `json:"tools"`
	}
	blockJSON struct {
		Type    string         `json:"type"`
		Text    string         `json:"text"`
		ID      string         `json:"id"`
		Name    string         `json:"name"`
		Input   jsontext.Value `json:"input"`
		Call    string         `json:"tool_use_id"`
		Content jsontext.Value `json:"content"`
		IsError bool           `json:"is_error"`
	}
)

// parse reads a body. It judges no more than it has to understand: a file that
// the client read into its conversation may hold anything.
func parse(body []byte) (*Request, error) {
	var b bodyJSON
	if err := json.Unmarshal(body, &b, jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	r := &Request{Model: b.Model, Stream: b.Stream, Body: body}
	system, err := blocks(b.System)
	if err != nil {
		return nil, err
	}
	for _, s := range system {
		r.System = append(r.System, s.Text)
	}
	for _, m := range b.Messages {
		content, err := blocks(m.Content)
		if err != nil {
			return nil, err
		}
		r.Messages = append(r.Messages, Message{Role: m.Role, Blocks: content})
	}
	for _, t := range b.Tools {
		r.Tools = append(r.Tools, Tool{Name: t.Name, Description: t.Description, Schema: t.Schema})
	}
	return r, nil
}

// blocks reads content, which is text or a list of blocks.
func blocks(content jsontext.Value) ([]Block, error) {
	lenient := jsontext.AllowInvalidUTF8(true)
	switch content.Kind() {
	case '"':
		var text string
		if err := json.Unmarshal(content, &text, lenient); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRequest, err)
		}
		return []Block{{Type: "text", Text: text}}, nil
	case '[':
	default:
		return nil, nil // none, null, or of a form that says nothing to the model
	}
	var list []blockJSON
	if err := json.Unmarshal(content, &list, lenient); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	out := make([]Block, 0, len(list))
	for _, b := range list {
		block := Block{Type: b.Type, Text: b.Text, ID: b.ID, Name: b.Name, Input: b.Input, IsError: b.IsError}
		if b.Type == "tool_result" {
			text, err := texts(b.Content)
			if err != nil {
				return nil, err
			}
			block.ID, block.Text = b.Call, text
		}
		out = append(out, block)
	}
	return out, nil
}

// texts joins the texts of a tool result. Its blocks hold no results of their
// own, so the depth stays bounded.
func texts(content jsontext.Value) (string, error) {
	var all []string
	switch content.Kind() {
	case '"':
		var text string
		if err := json.Unmarshal(content, &text, jsontext.AllowInvalidUTF8(true)); err != nil {
			return "", fmt.Errorf("%w: %w", ErrRequest, err)
		}
		return text, nil
	case '[':
		var list []struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal(content, &list, jsontext.AllowInvalidUTF8(true)); err != nil {
			return "", fmt.Errorf("%w: %w", ErrRequest, err)
		}
		for _, b := range list {
			all = append(all, b.Text)
		}
	default:
	}
	return strings.Join(all, "\n"), nil
}

// Text joins the texts of a message, tool results included.
func (m Message) Text() string {
	var all []string
	for _, b := range m.Blocks {
		if b.Text != "" {
			all = append(all, b.Text)
		}
	}
	return strings.Join(all, "\n")
}

// Text joins all that the model was told in words: the system prompt, then the
// messages. Tools and their descriptions are not in it.
func (r *Request) Text() string {
	all := append([]string(nil), r.System...)
	for _, m := range r.Messages {
		all = append(all, m.Text())
	}
	return strings.Join(all, "\n")
}

// Find looks for a pattern in Text and gives the last match's groups: a script
// that calls a tool by a name found so has it from what the client sent.
func (r *Request) Find(pattern *regexp.Regexp) ([]string, error) {
	all := pattern.FindAllStringSubmatch(r.Text(), -1)
	if len(all) == 0 {
		return nil, fmt.Errorf("nothing that the model was sent matches %q", pattern)
	}
	return all[len(all)-1][1:], nil
}

// Offers tells whether the client offers a tool of this name in full.
func (r *Request) Offers(tool string) bool {
	for _, t := range r.Tools {
		if t.Name == tool {
			return true
		}
	}
	return false
}

// Results lists the tool results of the request in order.
func (r *Request) Results() []Result {
	names := map[string]string{}
	var all []Result
	for _, m := range r.Messages {
		for _, b := range m.Blocks {
			switch b.Type {
			case "tool_use":
				names[b.ID] = b.Name
			case "tool_result":
				all = append(all, Result{ID: b.ID, Name: names[b.ID], Text: b.Text, IsError: b.IsError, Conversation: r.Conversation})
			}
		}
	}
	return all
}

// Last gives the newest tool result of the request.
func (r *Request) Last() (Result, error) {
	all := r.Results()
	if len(all) == 0 {
		return Result{}, errors.New("the request has no tool result")
	}
	return all[len(all)-1], nil
}
