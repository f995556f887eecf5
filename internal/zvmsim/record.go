package zvmsim

import "time"

// maxRecords bounds the memory of a simulator that runs for days; the oldest
// records go first.
const (
	maxRecords = 100_000
	maxInserts = 10_000
)

// Request is what was recorded of one request. Headers' values and form bodies
// aren't in it, so neither is a secret. Status and Took are zero while it is in
// the simulator, Status also after a reset.
type Request struct {
	Seq     int       `json:"seq"`  // from 1
	Time    time.Time `json:"time"` // true time of arrival
	Op      string    `json:"op"`
	Method  string    `json:"method"`
	Path    string    `json:"path"`
	Query   string    `json:"query"`
	Status  int       `json:"status"`
	VPG     string    `json:"vpg"`   // by name, where the path names one
	Tag     string    `json:"tag"`   // of an insert, or of the insert whose task was read
	Task    string    `json:"task"`  // likewise
	Grant   string    `json:"grant"` // of a token request
	Headers []string  `json:"headers"`
	Delay   Span      `json:"delay"` // the simulator's own
	Took    Span      `json:"took"`  // from arrival to answer, the delay included
}

// Timing is the life of one insert, to measure a client against. What a client
// added is the time it took, less the delays of the requests that had to come
// before the POST, less Visible, less ReadDelay, less a token renewal's delay.
type Timing struct {
	VPG       string    `json:"vpg"`
	Tag       string    `json:"tag"`
	Task      string    `json:"task"`
	Outcome   Outcome   `json:"outcome"`
	Request   int       `json:"request"`    // Seq of the POST
	Received  time.Time `json:"received"`   // true time of the POST's arrival
	PostDelay Span      `json:"post_delay"` // before the POST was answered
	Done      Span      `json:"done"`       // from arrival to the end of the task
	Visible   Span      `json:"visible"`    // from arrival to the tag in the list; 0 when it never appears
	Read      Span      `json:"read"`       // from arrival to the arrival of the list read that showed it; 0 for none yet
	ReadBy    int       `json:"read_by"`    // Seq of that read
	ReadDelay Span      `json:"read_delay"` // before that read was answered
}

// record notes a request at its arrival.
func (s *Server) record(c *call) {
	c.rec = &Request{
		Seq: s.seq + 1, Time: s.trueTime(c), Op: c.op,
		Method: c.r.Method, Path: c.r.URL.Path, Query: c.r.URL.RawQuery,
	}
	s.seq++
	if c.group != nil {
		c.rec.VPG = c.group.spec.Name
	}
	c.rec.Headers = headerNames(c.r.Header)
	if len(s.requests) >= maxRecords {
		s.requests = s.requests[1:]
	}
	s.requests = append(s.requests, c.rec)
}

// remember keeps an insert, for its task and its timing.
func (s *Server) remember(i *insert) {
	if len(s.inserts) >= maxInserts {
		s.inserts = s.inserts[1:]
		s.timed = max(0, s.timed-1)
	}
	s.inserts = append(s.inserts, i)
}

// Forget empties the record of requests and timings. Numbering goes on.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
}

func (s *Server) forget() { s.requests, s.timed = nil, len(s.inserts) }

func (s *Server) trueTime(c *call) time.Time { return s.wall.Add(c.now.Sub(s.start)) }

// Requests returns what was recorded, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Request, len(s.requests))
	for i, r := range s.requests {
		list[i] = *r
	}
	return list
}

// Count returns how many requests of an operation were recorded.
func (s *Server) Count(op string) int {
	n := 0
	for _, r := range s.Requests() {
		if r.Op == op {
			n++
		}
	}
	return n
}

// Timings returns the life of every insert that was accepted, oldest first.
func (s *Server) Timings() []Timing {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []Timing{}
	for _, i := range s.inserts[s.timed:] {
		t := Timing{
			VPG: i.vpg.spec.Name, Tag: i.tag, Task: i.task, Outcome: i.outcome, Request: i.seq,
			Received: s.wall.Add(i.received.Sub(s.start)), PostDelay: Span(i.delay),
			Done: Span(i.ends.Sub(i.received)),
		}
		if i.outcome == InsertTag {
			t.Visible = Span(i.visible.Sub(i.received))
		}
		if i.shown {
			t.Read, t.ReadBy, t.ReadDelay = Span(i.read.Sub(i.received)), i.readSeq, Span(i.readOwn)
		}
		list = append(list, t)
	}
	return list
}
