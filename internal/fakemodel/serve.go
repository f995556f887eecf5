package fakemodel

import (
	"crypto/subtle"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// responsesPath is where clients of the Responses API ask for a turn.
const responsesPath = "/v1/responses"

// secret are the headers that no record keeps.
var secret = []string{"Authorization", "Proxy-Authorization", "X-Api-Key", "Cookie"}

func (s *Server) serve(w http.ResponseWriter, h *http.Request) {
	if !s.begin() {
		fail(w, 529, "overloaded_error", "the scripted model is busy or closing")
		return
	}
	defer func() { <-s.slots }()
	turn := h.Method == http.MethodPost && (h.URL.Path == "/v1/messages" || h.URL.Path == responsesPath)
	count := h.Method == http.MethodPost && h.URL.Path == "/v1/messages/count_tokens"
	switch {
	case !turn && !count:
		s.other(w, h, http.StatusNotFound)
	case !s.authentic(h.Header):
		s.mu.Lock()
		s.refused++
		s.mu.Unlock()
		fail(w, http.StatusUnauthorized, "authentication_error", "this model answers one client alone")
	case count:
		s.other(w, h, http.StatusOK)
	default:
		s.turn(w, h)
	}
}

// authentic compares the key without telling by its time how much fits.
func (s *Server) authentic(h http.Header) bool {
	bearer, _ := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	ok := subtle.ConstantTimeCompare([]byte(h.Get("X-Api-Key")), []byte(s.key))
	return ok|subtle.ConstantTimeCompare([]byte(bearer), []byte(s.key)) == 1
}

// other answers what asks for no turn: counting tokens, or a path that a client
// tries at its start and can do without.
func (s *Server) other(w http.ResponseWriter, h *http.Request, status int) {
	s.mu.Lock()
	if len(s.others) < MaxOther {
		s.others = append(s.others, Other{Method: h.Method, Path: h.URL.Path, Status: status})
	}
	tokens := s.tokens(Turn{})
	s.mu.Unlock()
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, h.Body, MaxBody)); err != nil {
		return // the client hung up, or sent more than a request may have
	}
	if status != http.StatusOK {
		fail(w, status, "not_found_error", "the scripted model has no such path")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"input_tokens":%d}`, tokens)
}

// turn records the request and answers it by the script.
func (s *Server) turn(w http.ResponseWriter, h *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, h.Body, MaxBody))
	if err != nil {
		s.fault(fmt.Errorf("reading a request: %w", err))
		fail(w, http.StatusRequestEntityTooLarge, "request_too_large", "reading the request failed")
		return
	}
	read := parse
	if h.URL.Path == responsesPath {
		read = parseResponses
	}
	r, err := read(body)
	if err != nil {
		s.fault(err)
		fail(w, http.StatusBadRequest, "invalid_request_error", err.Error())
		return
	}
	r.Header = h.Header.Clone()
	for _, name := range secret {
		r.Header.Del(name)
	}
	step, t, ok := s.record(r)
	if !ok {
		fail(w, http.StatusRequestEntityTooLarge, "request_too_large", "the scripted model keeps no more")
		return
	}
	s.reply(w, r, s.answer(h.Context(), r, step, t))
}

// record keeps the request and finds its step. Whoever waits for a result is
// told only afterwards.
func (s *Server) record(r *Request) (Step, *thread, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept+len(r.Body) > MaxKept {
		s.faults = append(s.faults, fmt.Errorf("requests of more than %d bytes together", MaxKept))
		return nil, nil, false
	}
	s.kept += len(r.Body)
	r.Seq = len(s.requests) + 1
	step, t := s.take(r)
	s.requests = append(s.requests, r)
	close(s.changed)
	s.changed = make(chan struct{})
	return step, t, true
}

func (s *Server) fault(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, err)
}
