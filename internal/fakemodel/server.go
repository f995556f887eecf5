package fakemodel

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// Bounds. A server that meets one answers with an error and says so in Err.
const (
	MaxBody  = 32 << 20  // bytes of one request
	MaxKept  = 256 << 20 // bytes of all requests together
	MaxOther = 1000      // requests kept that ask for no turn
	inFlight = 32        // requests at a time
)

// Server is a running model. Its methods may be called from several goroutines.
type Server struct {
	url    string
	key    string
	http   *http.Server
	served chan struct{}
	cancel context.CancelFunc
	slots  chan struct{}
	conns  sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	script   Script
	threads  []*thread
	requests []*Request
	others   []Other
	kept     int
	calls    int
	refused  int
	faults   []error
	changed  chan struct{} // closed and renewed when a request arrives
}

// Other is a request for something else than a turn.
type Other struct {
	Method, Path string
	Status       int
}

// Start serves the script on a free port of 127.0.0.1 until Close.
func Start(script Script) (*Server, error) {
	all, err := threads(script)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the scripted model: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		url: "http://" + l.Addr().String(), key: "guard-" + rand.Text(), cancel: cancel,
		served: make(chan struct{}), slots: make(chan struct{}, inFlight), changed: make(chan struct{}),
		script: script, threads: all,
	}
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		ConnState:         s.connection,
		ErrorLog:          log.New(discard{}, "", 0),
	}
	go func() {
		defer close(s.served)
		_ = s.http.Serve(l) // ends with ErrServerClosed
	}()
	return s, nil
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// URL is the base URL for the client, without a slash at its end.
func (s *Server) URL() string { return s.url }

// Key is the API key that the client has to send. It opens nothing but this
// server.
func (s *Server) Key() string { return s.key }

// Close ends the server with all requests that are being answered.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	err := s.http.Close()
	<-s.served
	// Again, for a connection that was accepted while the first one ran.
	err = errors.Join(err, s.http.Close())
	s.conns.Wait()
	if err != nil {
		return fmt.Errorf("closing the scripted model: %w", err)
	}
	return nil
}

// connection counts the goroutines that net/http has for connections: one may
// outlive its answer for a moment.
func (s *Server) connection(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.conns.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.conns.Done()
	default:
	}
}

// begin admits a request, unless the server closes or has too many at a time.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	select {
	case s.slots <- struct{}{}:
		return true
	default:
		s.faults = append(s.faults, fmt.Errorf("more than %d requests at a time", inFlight))
		return false
	}
}

// Requests lists the requests for a turn in order of arrival.
func (s *Server) Requests() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Request(nil), s.requests...)
}

// Count is the number of requests for a turn, asides included.
func (s *Server) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

// Others lists what else the client asked for.
func (s *Server) Others() []Other {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Other(nil), s.others...)
}

// Refused is the number of requests that didn't have the key.
func (s *Server) Refused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// Results lists the result of each call that the model was told of, once, in
// the order in which it heard of them.
func (s *Server) Results() []Result {
	var all []Result
	seen := map[string]bool{}
	for _, r := range s.Requests() {
		for _, res := range r.Results() {
			if !seen[res.ID] {
				seen[res.ID] = true
				all = append(all, res)
			}
		}
	}
	return all
}

// Result waits until the client sends the result of a call.
func (s *Server) Result(ctx context.Context, id string) (Result, error) {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		for _, res := range s.Results() {
			if res.ID == id {
				return res, nil
			}
		}
		select {
		case <-changed:
		case <-s.served:
			return Result{}, fmt.Errorf("waiting for the result of call %q: the model was closed", id)
		case <-ctx.Done():
			return Result{}, fmt.Errorf("waiting for the result of call %q: %w", id, ctx.Err())
		}
	}
}

// Err joins the steps that failed and the requests that couldn't be served.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.faults...)
}
