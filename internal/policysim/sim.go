// Package policysim is a policy server to test against: it speaks the protocol of
// [policy_server] as the servers in use do, and fails in every way that they, and
// what stands before them, can fail.
//
//	POST /v1/sessions/{session}/policies/evaluate              an evaluation
//	POST /v1/sessions/{session}/elicitations/{id}/resolve      a person's answer
//
// What a server has besides (labels, users, agents, a store) isn't here: a client
// sees nothing of it. It is for tests: nothing that is built for use imports it.
package policysim

import (
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Server is one policy server. The zero value of its fields is a server that has
// no policy, and so allows everything. Fields are set before it is asked.
type Server struct {
	Policies   []Policy
	Sessions   []string      // that exist; none: all
	Token      string        // the bearer token that is taken; "": any request is
	ReadOnly   bool          // the caller may look, not edit: nothing is held for it
	AskTimeout time.Duration // 0: a day

	mu     sync.Mutex
	faults []Fault
	seen   []Evaluation
	cards  map[string]*card
	tombs  map[string]string // answers that found nobody waiting

	http http.Server
	url  string
}

// Evaluation is one request as it came.
type Evaluation struct {
	Session string
	Header  http.Header
	Body    string
	ID      string // "" when it had none
	Phase   string
	Event   jsontext.Value
	Faulty  bool // a fault took the place of its verdict
}

// Fault answers a request in the place of a verdict. It reports whether it has;
// otherwise the server goes on with the request.
type Fault func(w http.ResponseWriter, r *http.Request) bool

// Start serves on a free port of 127.0.0.1.
func (s *Server) Start() error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.url = "http://" + ln.Addr().String()
	s.http = http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.http.Serve(ln) }() // ends with Close
	return nil
}

// Close ends it with all connections.
func (s *Server) Close() { _ = s.http.Close() }

// URL is what policy_server.url is for this server.
func (s *Server) URL() string { return s.url + Path }

// Path is where evaluations go.
const Path = "/v1/sessions/{session}/policies/evaluate"

// Fail puts faults before the next requests, one each.
func (s *Server) Fail(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, faults...)
}

// Seen are the evaluations so far.
func (s *Server) Seen() []Evaluation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/sessions/"), "/")
	switch {
	case r.Method == http.MethodPost && len(parts) == 3 && parts[1] == "policies" && parts[2] == "evaluate":
		s.evaluate(w, r, parts[0])
	case r.Method == http.MethodPost && len(parts) == 4 && parts[1] == "elicitations" && parts[3] == "resolve":
		s.resolve(w, r, parts[2])
	default:
		fail(w, http.StatusNotFound, "not_found", "no such route")
	}
}

func (s *Server) evaluate(w http.ResponseWriter, r *http.Request, session string) {
	const most = 64 << 20
	body, err := io.ReadAll(io.LimitReader(r.Body, most))
	if err != nil {
		return // who asked is gone
	}
	q, refusal := read(body)
	s.mu.Lock()
	s.seen = append(s.seen, Evaluation{Session: session, Header: r.Header.Clone(), Body: string(body), ID: q.id, Phase: q.phase, Event: q.event})
	at := len(s.seen) - 1
	var fault Fault
	if len(s.faults) > 0 {
		fault, s.faults = s.faults[0], s.faults[1:]
		s.seen[at].Faulty = true
	}
	s.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	switch {
	case !isJSON(r.Header.Get("Content-Type")):
		fail(w, http.StatusUnsupportedMediaType, "invalid_input", "the body is no JSON")
	case s.Token != "" && r.Header.Get("Authorization") != "Bearer "+s.Token:
		fail(w, http.StatusUnauthorized, "unauthorized", "no such token")
	case len(s.Sessions) > 0 && !slices.Contains(s.Sessions, session):
		fail(w, http.StatusNotFound, "not_found", "no such session")
	case refusal != "":
		fail(w, http.StatusBadRequest, "invalid_input", refusal)
	default:
		s.judge(w, r, q)
	}
}

// fail writes an error as servers do.
func fail(w http.ResponseWriter, status int, code, message string) {
	write(w, status, `{"error":{"code":`+quote(code)+`,"message":`+quote(message)+`}}`)
}

func write(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // who asked may be gone
}

func quote(text string) string {
	b, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "?"))
	if err != nil {
		return `""`
	}
	return string(b)
}
