package policysim

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The results of policies and of evaluations, in the protocol's words.
const (
	Allow       = "POLICY_ACTION_ALLOW"
	Deny        = "POLICY_ACTION_DENY"
	Ask         = "POLICY_ACTION_ASK"
	Unspecified = "POLICY_ACTION_UNSPECIFIED"
)

// Policy is one rule. One that panics denies.
type Policy struct {
	Name  string
	Judge func(phase string, event jsontext.Value) Verdict
}

// Verdict is a policy's. The zero value has no opinion.
type Verdict struct {
	Result, Reason string
	Data           string // JSON in the place of what was asked; "": unchanged
}

// Always is a policy that says the same of everything in the phases that are
// named; none: in all.
func Always(name, result, reason string, phases ...string) Policy {
	return Policy{name, func(phase string, _ jsontext.Value) Verdict {
		if len(phases) > 0 && !slices.Contains(phases, phase) {
			return Verdict{}
		}
		return Verdict{Result: result, Reason: reason}
	}}
}

// card is an approval that a person is asked for.
type card struct {
	answer  chan string
	waiting int
}

// run asks all policies: the first denial ends it, approvals add up.
func (s *Server) run(q query) Verdict {
	v := Verdict{Result: Allow}
	var asked []string
	for _, p := range s.Policies {
		one := judge(p, q)
		switch one.Result {
		case Deny:
			return one
		case Ask:
			asked = append(asked, p.Name+": "+one.Reason)
		}
		if one.Data != "" {
			v.Data = one.Data
		}
	}
	if len(asked) > 0 {
		return Verdict{Result: Ask, Reason: strings.Join(asked, "; ")}
	}
	return v
}

func judge(p Policy, q query) (v Verdict) {
	defer func() {
		if r := recover(); r != nil {
			v = Verdict{Result: Deny, Reason: fmt.Sprintf("policy '%s' failed: %v", p.Name, r)}
		}
	}()
	return p.Judge(q.phase, q.event)
}

// judge answers an evaluation. An approval is held until a person answers, unless
// the caller may only look.
func (s *Server) judge(w http.ResponseWriter, r *http.Request, q query) {
	v := s.run(q)
	held := q.phase == "PHASE_TOOL_CALL" || q.phase == "PHASE_REQUEST" || q.phase == "PHASE_LLM_REQUEST"
	if v.Result == Ask && held && !s.ReadOnly {
		v = s.park(r, q.id, v.Reason)
	}
	body := `{"result":` + quote(v.Result)
	if v.Reason != "" {
		body += `,"reason":` + quote(v.Reason)
	}
	if v.Data != "" {
		body += `,"data":` + v.Data
	}
	write(w, http.StatusOK, body+"}")
}

// park waits for the answer to a card, which stays when who asked goes.
func (s *Server) park(r *http.Request, id, reason string) Verdict {
	s.mu.Lock()
	if action, ok := s.tombs[id]; ok {
		delete(s.tombs, id)
		s.mu.Unlock()
		return resolved(action, reason)
	}
	if s.cards == nil {
		s.cards, s.tombs = map[string]*card{}, map[string]string{}
	}
	c := s.cards[id]
	if c == nil {
		c = &card{answer: make(chan string, 1)}
		s.cards[id] = c
	}
	c.waiting++
	s.mu.Unlock()
	wait := s.AskTimeout
	if wait == 0 {
		wait = 24 * time.Hour
	}
	late := Late(wait)
	expired := make(chan struct{})
	go func() {
		if !late(nil, r) {
			close(expired)
		}
	}()
	var v Verdict
	select {
	case action := <-c.answer:
		v = resolved(action, reason)
	case <-expired:
		v = Verdict{Result: Deny, Reason: reason}
	case <-r.Context().Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.waiting--
	select {
	case action := <-c.answer: // it came as who asked went
		s.tombs[id] = action
	default:
	}
	if v.Result != "" {
		delete(s.cards, id)
	}
	return v
}

func resolved(action, reason string) Verdict {
	switch action {
	case "accept":
		return Verdict{Result: Allow}
	case "decline":
		return Verdict{Result: Deny, Reason: reason + " declined"}
	}
	return Verdict{Result: Deny, Reason: reason}
}

// Cards are the ids of the approvals that are open.
func (s *Server) Cards() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for id := range s.cards {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Resolve is a person's answer to a card: accept, decline or cancel.
func (s *Server) Resolve(id, action string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cards[id]
	switch {
	case c == nil:
		return false
	case c.waiting == 0:
		s.tombs[id] = action
		delete(s.cards, id)
	default:
		c.answer <- action
		delete(s.cards, id) // the next answer finds none
	}
	return true
}

func (s *Server) resolve(w http.ResponseWriter, r *http.Request, id string) {
	var answer struct {
		Action string `json:"action"`
	}
	if err := json.UnmarshalRead(r.Body, &answer); err != nil {
		fail(w, http.StatusBadRequest, "invalid_input", "no action")
		return
	}
	if !s.Resolve(id, answer.Action) {
		fail(w, http.StatusNotFound, "not_found", "no such elicitation")
		return
	}
	w.WriteHeader(http.StatusAccepted)
}
