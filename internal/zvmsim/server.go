package zvmsim

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"leaseguard.internal/internal/clock"
)

// Files that Start writes into Options.Dir.
const (
	FileCA       = "ca.pem"        // the certificate, 0644
	FileSecret   = "client.secret" // 0600
	FilePassword = "user.password" // 0600
)

// Options say how a simulator is started. Only Dir is needed.
type Options struct {
	Listen    string      // host:port; default 127.0.0.1:0
	Dir       string      // made if missing; gets the certificate and the secrets
	Estate    *Estate     // default DefaultEstate; owned by the server from then on
	Behaviour *Behaviour  // default Preset("default")
	Clock     clock.Clock // default clock.System; only delays are slept for real
	Log       io.Writer   // one line per request; default none
}

// Info is what a client needs to know. Its JSON form is the line that `guard
// zvm-sim` prints.
type Info struct {
	URL          string `json:"url"`
	CAFile       string `json:"ca_file"`
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	Username     string `json:"username"`
	Password     string `json:"password"`
}

// Server is a running simulator. Its methods may be called from several
// goroutines.
type Server struct {
	info   Info
	pin    string
	clk    clock.Clock
	log    io.Writer
	http   *http.Server
	served chan struct{}
	cancel context.CancelFunc

	mu       sync.Mutex
	closed   bool
	working  sync.WaitGroup
	start    clock.Instant
	wall     time.Time // at start
	initial  Behaviour
	now      Behaviour // as changed since
	counts   []int     // requests that fitted, per answer of now.Answers
	estate   *Estate
	groups   []*group
	tokens   map[string]token
	inserts  []*insert
	timed    int // inserts before this one are forgotten by Timings
	requests []*Request
	seq      int
}

// Start makes the directory and the certificate and serves until Close.
func Start(o Options) (*Server, error) {
	s, err := newServer(&o)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("starting the ZVM simulator: %w", err)
	}
	cert, err := s.publish(o.Dir, l.Addr())
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	// HTTP/1.1 alone: so that a reset reaches a client as a TCP reset.
	inner := tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
	go func() {
		defer close(s.served)
		_ = s.http.Serve(inner) // ends with ErrServerClosed
	}()
	return s, nil
}

func newServer(o *Options) (*Server, error) {
	if o.Dir == "" {
		return nil, errors.New("starting the ZVM simulator: no directory is given for its certificate")
	}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if o.Clock == nil {
		o.Clock = clock.System{}
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.Estate == nil {
		o.Estate = DefaultEstate()
	}
	if o.Behaviour == nil {
		b, err := Preset("default")
		if err != nil {
			return nil, err
		}
		o.Behaviour = &b
	}
	if err := o.Estate.complete(); err != nil {
		return nil, fmt.Errorf("starting the ZVM simulator: %w", err)
	}
	s := &Server{
		clk: o.Clock, log: o.Log, served: make(chan struct{}), estate: o.Estate,
		start: o.Clock.Now(), wall: o.Clock.Wall(),
		tokens: map[string]token{}, initial: o.Behaviour.clone(),
	}
	if err := s.checkBehaviour(s.initial); err != nil {
		return nil, fmt.Errorf("starting the ZVM simulator: %w", err)
	}
	s.restore()
	s.build()
	return s, nil
}

// publish writes what clients need into dir and fills in the server's Info.
func (s *Server) publish(dir string, addr net.Addr) (tls.Certificate, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("finding directory %q: %w", dir, err)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return tls.Certificate{}, fmt.Errorf("making the simulator's directory: %w", err)
	}
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("reading address %q: %w", addr, err)
	}
	cert, pemBytes, err := selfSigned(host, clock.System{}.Wall())
	if err != nil {
		return tls.Certificate{}, err
	}
	s.pin = spki(cert.Leaf)
	s.info = Info{
		URL: "https://" + addr.String(), CAFile: filepath.Join(abs, FileCA),
		ClientID: "guard", ClientSecret: random(), Username: "guard-user", Password: random(),
	}
	files := []struct {
		name string
		data []byte
		mode os.FileMode
	}{
		{FileCA, pemBytes, 0o644},
		{FileSecret, []byte(s.info.ClientSecret), 0o600},
		{FilePassword, []byte(s.info.Password), 0o600},
	}
	for _, f := range files {
		if err := replace(filepath.Join(abs, f.name), f.data, f.mode); err != nil {
			return tls.Certificate{}, err
		}
	}
	return cert, nil
}

// replace writes a file under a new name first, so that it neither follows a
// link nor inherits a mode.
func replace(path string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fmt.Errorf("writing the simulator's file: %w", err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing the simulator's file: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// random returns 256 random bits in base64url.
func random() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Info returns where the simulator is and how to log in.
func (s *Server) Info() Info { return s.info }

// SPKI returns the pin of the certificate's key: base64 of its SHA-256.
func (s *Server) SPKI() string { return s.pin }

// Close ends every connection, also those that hang, and waits for the work in
// hand. It may be called twice.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	err := s.http.Close()
	s.working.Wait()
	<-s.served
	return err
}

// zvmTime is what the ZVM's clock shows at an instant.
func (s *Server) zvmTime(at clock.Instant) time.Time {
	return s.wall.Add(at.Sub(s.start) + time.Duration(s.now.Settings.Skew))
}
