package zvmsim

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"leaseguard.internal/internal/strictjson"
)

// errUnknownAdmin is answered with 404; every other mistake with 400.
var errUnknownAdmin = errors.New("no such admin endpoint: see docs/simulator.md")

// adminCall does one admin request and returns what to show for it.
type adminCall func(s *Server, r *http.Request, body []byte) (any, error)

// adminCalls are the endpoints below /_sim/, by method and name.
var adminCalls = map[string]adminCall{
	"GET requests":    func(s *Server, r *http.Request, _ []byte) (any, error) { return s.filtered(r) },
	"DELETE requests": func(s *Server, _ *http.Request, _ []byte) (any, error) { s.Forget(); return done, nil },
	"GET timings":     func(s *Server, _ *http.Request, _ []byte) (any, error) { return s.Timings(), nil },
	"GET estate":      func(s *Server, _ *http.Request, _ []byte) (any, error) { return s.estate, nil },
	"GET behaviour":   func(s *Server, _ *http.Request, _ []byte) (any, error) { return s.Behaviour(), nil },
	"GET latency":     func(s *Server, _ *http.Request, _ []byte) (any, error) { return s.Behaviour().Latency, nil },
	"PUT latency":     putLatency,
	"GET settings":    func(s *Server, _ *http.Request, _ []byte) (any, error) { return s.Behaviour().Settings, nil },
	"PUT settings":    putSettings,
	"GET faults":      func(s *Server, _ *http.Request, _ []byte) (any, error) { return s.Behaviour().Faults, nil },
	"PUT faults":      putFaults,
	"DELETE faults":   deleteFaults,
	"GET answers":     func(s *Server, _ *http.Request, _ []byte) (any, error) { return s.Behaviour().Answers, nil },
	"POST answers":    postAnswer,
	"DELETE answers":  func(s *Server, _ *http.Request, _ []byte) (any, error) { s.ClearAnswers(); return done, nil },
	"POST plant":      postPlant,
	"POST resync": func(s *Server, r *http.Request, _ []byte) (any, error) {
		return done, s.Resync(r.URL.Query().Get("vpg"))
	},
	"POST expire-tokens": func(s *Server, _ *http.Request, _ []byte) (any, error) { s.ExpireTokens(); return done, nil },
	"POST reset":         func(s *Server, _ *http.Request, _ []byte) (any, error) { s.Reset(); return done, nil },
}

// done is shown when there is nothing else to show.
var done = map[string]bool{"done": true}

func (s *Server) admin(w http.ResponseWriter, r *http.Request, name string) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var shown any
	if err == nil {
		do, known := adminCalls[r.Method+" "+name]
		if !known {
			err = errUnknownAdmin
		} else {
			shown, err = do(s, r, body)
		}
	}
	status := http.StatusOK
	if err != nil {
		status, shown = http.StatusBadRequest, map[string]string{"error": err.Error()}
		if errors.Is(err, errUnknownAdmin) {
			status = http.StatusNotFound
		}
	}
	send(r.Context(), w, reply{status: status}, append(jsonText(shown), '\n'))
}

// filtered returns the requests of one op, and those after a sequence number.
func (s *Server) filtered(r *http.Request) ([]Request, error) {
	op, after := r.URL.Query().Get("op"), 0
	if text := r.URL.Query().Get("after"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("after=%q isn't a number", text)
		}
		after = n
	}
	list := []Request{}
	for _, q := range s.Requests() {
		if q.Seq > after && (op == "" || q.Op == op) {
			list = append(list, q)
		}
	}
	return list, nil
}

func putLatency(s *Server, _ *http.Request, body []byte) (any, error) {
	var l Latency
	if err := strictjson.Decode(body, &l); err != nil {
		return nil, err
	}
	return done, s.SetLatency(l)
}

// putSettings changes the keys that are given and leaves the others.
func putSettings(s *Server, _ *http.Request, body []byte) (any, error) {
	set := s.Behaviour().Settings
	if err := strictjson.Decode(body, &set); err != nil {
		return nil, err
	}
	return done, s.SetSettings(set)
}

func putFaults(s *Server, r *http.Request, body []byte) (any, error) {
	var f Faults
	if err := strictjson.Decode(body, &f); err != nil {
		return nil, err
	}
	return done, s.Set(r.URL.Query().Get("vpg"), f)
}

func deleteFaults(s *Server, r *http.Request, _ []byte) (any, error) {
	if vpg := r.URL.Query().Get("vpg"); vpg != "" {
		return done, s.Clear(vpg)
	}
	s.ClearAll()
	return done, nil
}

func postAnswer(s *Server, _ *http.Request, body []byte) (any, error) {
	var a Answer
	if err := strictjson.Decode(body, &a); err != nil {
		return nil, err
	}
	return done, s.Answer(a)
}

func postPlant(s *Server, r *http.Request, _ []byte) (any, error) {
	q := r.URL.Query()
	var age time.Duration
	if text := q.Get("age"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return nil, fmt.Errorf("age=%q isn't a duration such as 30s", text)
		}
		age = d
	}
	id, err := s.Plant(q.Get("vpg"), q.Get("tag"), age)
	return map[string]string{"id": id}, err
}
