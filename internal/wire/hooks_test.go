package wire

import (
	"bytes"
	"errors"
	"testing"
)

func jobFrame(job, line string) []byte {
	return append(append(HookJobHead([]byte(job), len(line)), line...), EndMark[:]...)
}

// What goes out in parts is the frame that the reader takes.
func TestHooksExchange(t *testing.T) {
	if got, want := jobFrame(`{"a":1}`, "line\n"), AppendReply(nil, Reply{Kind: KindHooks, Out: []byte(`{"a":1}`), Err: []byte("line\n")}); !bytes.Equal(got, want) {
		t.Errorf("a job is % x, want % x", got, want)
	}
	job, line, err := ReadHookJob(bytes.NewReader(jobFrame(`{"a":1}`, "line\n")))
	if err != nil || string(job) != `{"a":1}` || string(line) != "line\n" {
		t.Errorf("job %q, line %q, %v", job, line, err)
	}
	if len(HooksFrame()) != ReplySize+len(EndMark) {
		t.Error("what the gate reads has something in it")
	}
	for kind, body := range map[Kind]string{KindHooksReady: "", KindHookResults: "{}"} {
		got, err := ReadHooks(bytes.NewReader(AppendRequest(nil, Request{Kind: kind, Body: []byte(body)})), kind)
		if err != nil || string(got) != body {
			t.Errorf("kind %d: %q, %v", kind, got, err)
		}
	}
}

func TestHooksExchangeRefusals(t *testing.T) {
	for name, b := range map[string][]byte{
		"no job":             HooksFrame(),
		"an answer":          AppendReply(nil, Reply{Kind: KindAnswer, Out: []byte("{}")}),
		"no end":             append(HookJobHead([]byte("{}"), 1), "x...."...),
		"too large a job":    HookJobHead(make([]byte, MaxHookJob+1), 0),
		"too long a line":    HookJobHead([]byte("{}"), MaxHookLine+1),
		"a line of 4 GiB":    HookJobHead([]byte("{}"), 1<<32-1),
		"request's own form": AppendRequest(nil, Request{Kind: KindHooksReady}),
	} {
		if _, _, err := ReadHookJob(bytes.NewReader(b)); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ready := Request{Kind: KindHooksReady}
	results := Request{Kind: KindHookResults, Body: []byte("{}")}
	with := func(r Request, edit func(*Request)) []byte {
		edit(&r)
		return AppendRequest(nil, r)
	}
	for name, tc := range map[string]struct {
		b    []byte
		kind Kind
	}{
		"results where it has to be ready": {AppendRequest(nil, results), KindHooksReady},
		"ready where results have to be":   {AppendRequest(nil, ready), KindHookResults},
		"an event":                         {AppendRequest(nil, event("x")), KindHookResults},
		"ready with a body":                {with(ready, func(r *Request) { r.Body = []byte("x") }), KindHooksReady},
		"no results":                       {with(results, func(r *Request) { r.Body = nil }), KindHookResults},
		"with a control part":              {with(results, func(r *Request) { r.Control = []byte("{}") }), KindHookResults},
		"with a host":                      {with(results, func(r *Request) { r.Host = HostPi }), KindHookResults},
		"with a role":                      {with(ready, func(r *Request) { r.Role = RoleDecide }), KindHooksReady},
		"with a flag":                      {with(ready, func(r *Request) { r.Flags = FlagOversize }), KindHooksReady},
		"with a peer":                      {with(ready, func(r *Request) { r.Peer = 1 }), KindHooksReady},
		"too many results":                 {with(results, func(r *Request) { r.Body = make([]byte, MaxHookResults+1) }), KindHookResults},
	} {
		if _, err := ReadHooks(bytes.NewReader(tc.b), tc.kind); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Nobody begins a connection with them.
	for _, r := range []Request{ready, results} {
		if _, err := read(AppendRequest(nil, r), limits); !errors.Is(err, ErrFrame) {
			t.Errorf("kind %d is a first request: %v", r.Kind, err)
		}
	}
}

func FuzzReadHooks(f *testing.F) {
	f.Add(AppendRequest(nil, Request{Kind: KindHooksReady}), true)
	f.Add(AppendRequest(nil, Request{Kind: KindHookResults, Body: []byte("{}")}), false)
	f.Fuzz(func(t *testing.T, b []byte, ready bool) {
		kind := KindHookResults
		if ready {
			kind = KindHooksReady
		}
		body, err := ReadHooks(bytes.NewReader(b), kind)
		if err != nil {
			return
		}
		if again := AppendRequest(nil, Request{Kind: kind, Body: body}); !bytes.HasPrefix(b, again) {
			t.Errorf("% x was read as % x", b, again)
		}
	})
}

func FuzzReadHookJob(f *testing.F) {
	f.Add(jobFrame("{}", "x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		job, line, err := ReadHookJob(bytes.NewReader(b))
		if err != nil {
			return
		}
		if again := jobFrame(string(job), string(line)); len(again) > len(b) || !bytes.Equal(again[7+5:], b[12:len(again)]) {
			t.Errorf("% x was read as % x", b, again)
		}
	})
}
