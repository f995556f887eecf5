package zvmsim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"leaseguard.internal/internal/clock"
)

const maxBody = 64 << 10

// call is one request on its way through the simulator.
type call struct {
	r       *http.Request
	now     clock.Instant // of its arrival
	style   style
	op      string
	handler func(*Server, *call) reply
	arg     string // the identifier in the path, lower case
	query   values
	body    []byte
	group   *group
	rec     *Request
	insert  *insert   // that this POST made
	shows   []*insert // whose tag this list read shows for the first time
}

// reply is an answer in the making. A body that is bytes or a string is sent
// as it stands.
type reply struct {
	status int
	body   any
	header map[string]string
	reset  bool
	cut    bool
	slow   time.Duration
}

// message is an error as the ZVM tells it.
func message(status int, format string, args ...any) reply {
	return reply{status: status, body: obj{{"Message", fmt.Sprintf(format, args...)}}}
}

func ok(body any) reply { return reply{status: http.StatusOK, body: body} }

// values are query parameters under their names in lower case.
type values map[string]string

func parseQuery(u *url.URL) (values, error) {
	q, err := url.ParseQuery(u.RawQuery)
	v := values{}
	for name, list := range q {
		v[strings.ToLower(name)] = list[0]
	}
	return v, err
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if !s.begin() {
		panic(http.ErrAbortHandler)
	}
	defer s.working.Done()
	if admin, ok := strings.CutPrefix(r.URL.Path, "/_sim/"); ok {
		s.admin(w, r, admin)
		return
	}
	c := &call{r: r, now: s.clk.Now()}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	c.body = body
	rep, delay := s.answer(c, err)
	data := c.style.bytes(rep.body)
	if err := s.wait(r.Context(), c, delay); err != nil {
		panic(http.ErrAbortHandler) // the client or the server has gone
	}
	s.finish(c, rep)
	send(r.Context(), w, rep, data)
}

func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.working.Add(1)
	return true
}

// answer works out, at one instant, what the request does and gets.
func (s *Server) answer(c *call, bodyErr error) (reply, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.style = s.now.Settings.style()
	rep := s.route(c)
	s.record(c)
	if c.handler == nil {
		return rep, 0
	}
	if bodyErr != nil {
		return message(http.StatusRequestEntityTooLarge, "the request is too large"), 0
	}
	delay := s.latency(c.group, c.op).draw()
	planned, hit := s.planned(c)
	if !hit || planned.Executed || planned.Status == 0 && !planned.Reset {
		rep = s.execute(c)
	}
	if hit {
		rep = planned.apply(rep)
		delay += time.Duration(planned.Delay)
	}
	return rep, delay
}

// execute does the request's work.
func (s *Server) execute(c *call) reply {
	if c.op != OpToken {
		if rep, refused := s.authorize(c); refused {
			return rep
		}
	}
	for _, g := range s.groups {
		g.advance(s, c.now)
	}
	return c.handler(s, c)
}

// planned returns the first answer that fits and counts it.
func (s *Server) planned(c *call) (Answer, bool) {
	for i, a := range s.now.Answers {
		if a.Op != c.op || a.VPG != "" && a.VPG != c.rec.VPG {
			continue
		}
		s.counts[i]++
		if n := s.counts[i] - a.After; n > 0 && (a.Times == 0 || n <= a.Times) {
			return a, true
		}
	}
	return Answer{}, false
}

func (a Answer) apply(rep reply) reply {
	if a.Status != 0 {
		rep = reply{status: a.Status, body: a.Body}
	}
	rep.reset, rep.cut, rep.slow = a.Reset, a.Cut, time.Duration(a.Slow)
	return rep
}

// wait sleeps the request's delay and notes what it really was.
func (s *Server) wait(ctx context.Context, c *call, delay time.Duration) error {
	from := clock.System{}.Now()
	var err error
	if delay > 0 {
		err = clock.Sleep(ctx, delay)
	}
	own := clock.System{}.Now().Sub(from)
	s.mu.Lock()
	defer s.mu.Unlock()
	c.rec.Delay = Span(own)
	if c.insert != nil {
		c.insert.delay = own
	}
	for _, i := range c.shows {
		i.readOwn = own
	}
	return err
}

// finish completes the record before the client can see the answer.
func (s *Server) finish(c *call, rep reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !rep.reset {
		c.rec.Status = rep.status
	}
	c.rec.Took = Span(s.clk.Now().Sub(c.now))
	fmt.Fprintf(s.log, "zvm-sim: %d %s %q %d %s\n", c.rec.Seq, c.rec.Op, c.r.Method+" "+c.r.URL.Path, c.rec.Status, time.Duration(c.rec.Took))
}

func send(ctx context.Context, w http.ResponseWriter, rep reply, data []byte) {
	if rep.reset {
		reset(w)
	}
	kind := "application/json; charset=utf-8"
	if strings.HasPrefix(string(data[:min(1, len(data))]), "<") {
		kind = "text/html"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	for k, v := range rep.header {
		w.Header().Set(k, v)
	}
	w.WriteHeader(rep.status)
	if rep.cut {
		_, _ = w.Write(data[:len(data)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	if rep.slow > 0 {
		data = trickle(ctx, w, rep.slow, data)
	}
	_, _ = w.Write(data) // a client that has gone is its own affair
}

// trickle sends data in pieces over a time and returns the last piece.
func trickle(ctx context.Context, w http.ResponseWriter, over time.Duration, data []byte) []byte {
	const pieces = 16
	size := max(1, len(data)/pieces)
	for len(data) > size {
		_, _ = w.Write(data[:size])
		_ = http.NewResponseController(w).Flush()
		data = data[size:]
		if clock.Sleep(ctx, over/pieces) != nil {
			panic(http.ErrAbortHandler) // the client or the server has gone
		}
	}
	return data
}

// reset ends the connection with a TCP reset.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok {
		if tcp, ok := t.NetConn().(*net.TCPConn); ok {
			err = errors.Join(tcp.SetLinger(0), tcp.Close())
		}
	}
	_ = errors.Join(err, conn.Close())
	panic(http.ErrAbortHandler)
}
