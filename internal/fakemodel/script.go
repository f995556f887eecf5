package fakemodel

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Step makes the model's next turn. ctx ends when the client hangs up or the
// server closes. An error is kept for Err, and ends the conversation.
type Step func(ctx context.Context, r *Request) (Turn, error)

// Script is what the model says. Its zero value says "done" to everything.
type Script struct {
	Steps  []Step         // of the main conversation
	Others []Conversation // the first that matches a request has it
	Aside  Step           // answers requests that offer no tools; nil says "done"
	Tokens int            // input tokens reported as used, default 10; a high number makes a client compact
}

// Conversation is a thread of its own, as a subagent has one. Match sees the
// request alone and must not call the server.
type Conversation struct {
	Name  string // as requests and results give it
	Match func(*Request) bool
	Steps []Step
}

// Names of the conversations that every script has.
const (
	Main  = "main"
	Aside = "aside"
)

// Turn is one answer of the model: text, then calls. Without both it is the
// text "done".
type Turn struct {
	Text   string
	Calls  []Call
	Status int // not 0: an API error with this HTTP status instead
	Tokens int // not 0: instead of Script.Tokens
}

// Call is one tool_use block. Input is JSON text that reaches a streaming
// client byte for byte; empty stands for {}. ID is chosen by the server if
// empty: CallID(1) for the first call, and so on.
//
// In the Responses API Name is the one under which Request.Tools has the tool,
// and Input the text itself for a tool that takes free text. Item stands there
// for a whole output item, such as a search that the service has made.
type Call struct {
	ID, Name, Input string
	Item            string
}

// CallID is the id of the n-th call that the server names, counted from 1 over
// all conversations.
func CallID(n int) string { return fmt.Sprintf("toolu_guard_%04d", n) }

// Say is a step that says text and ends the client's turn.
func Say(text string) Step {
	return func(context.Context, *Request) (Turn, error) { return Turn{Text: text}, nil }
}

// Use is a step with one tool call.
func Use(name, input string) Step { return UseAll(Call{Name: name, Input: input}) }

// UseAll is a step with several calls in one turn.
func UseAll(calls ...Call) Step {
	return func(context.Context, *Request) (Turn, error) { return Turn{Calls: calls}, nil }
}

// After runs check before a step; its error is the step's.
func After(check func(ctx context.Context, r *Request) error, then Step) Step {
	return func(ctx context.Context, r *Request) (Turn, error) {
		if err := check(ctx, r); err != nil {
			return Turn{}, err
		}
		return then(ctx, r)
	}
}

// Prompted matches conversations in which a user's message before the first
// answer contains text: a subagent's begins with the prompt that its call gave.
func Prompted(text string) func(*Request) bool {
	return func(r *Request) bool {
		for _, m := range r.Messages {
			switch {
			case m.Role == "assistant":
				return false
			case m.Role == "user" && strings.Contains(m.Text(), text):
				return true
			}
		}
		return false
	}
}

// thread is a conversation's place in its script.
type thread struct {
	Conversation
	next  int
	ended bool
}

func threads(s Script) ([]*thread, error) {
	all := make([]*thread, 0, len(s.Others)+1)
	for _, c := range s.Others {
		if c.Name == "" || c.Name == Main || c.Name == Aside || c.Match == nil {
			return nil, fmt.Errorf("reading script: conversation %q needs a name of its own and a match", c.Name)
		}
		all = append(all, &thread{Conversation: c})
	}
	return append(all, &thread{Conversation: Conversation{Name: Main, Steps: s.Steps}}), nil
}

// take gives the request its conversation and the step that answers it. The
// caller holds the server's lock.
func (s *Server) take(r *Request) (Step, *thread) {
	if len(r.Tools) == 0 {
		r.Conversation = Aside
		return s.script.Aside, nil
	}
	t := s.threads[len(s.threads)-1]
	for _, c := range s.threads[:len(s.threads)-1] {
		if c.Match(r) {
			t = c
			break
		}
	}
	r.Conversation, r.Step = t.Name, t.next
	if t.ended || t.next >= len(t.Steps) {
		return nil, t
	}
	t.next++
	return t.Steps[r.Step], t
}

// answer runs the step; a failed one ends its conversation.
func (s *Server) answer(ctx context.Context, r *Request, step Step, t *thread) Turn {
	if step == nil {
		return Turn{}
	}
	turn, err := step(ctx, r)
	if err == nil {
		return turn
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t != nil {
		t.ended = true
	}
	// A client that hung up, or a server that closes, is no fault of a script.
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		s.faults = append(s.faults, fmt.Errorf("step %d of conversation %q: %w", r.Step+1, r.Conversation, err))
	}
	return Turn{Text: "the script ended: " + err.Error()}
}
