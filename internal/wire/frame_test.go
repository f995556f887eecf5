package wire

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

var limits = Limits{Control: MaxControl, Body: MaxPayload}

func event(body string) Request {
	return Request{Kind: KindEvent, Host: HostClaude, Role: RoleDecide, Control: []byte{}, Body: []byte(body)}
}

func read(b []byte, lim Limits) (Request, error) {
	r := bytes.NewReader(b)
	h, err := ReadHeader(r, lim)
	if err != nil {
		return Request{}, err
	}
	return ReadBody(r, h)
}

func TestRequestRoundTrip(t *testing.T) {
	for _, req := range []Request{
		event(`{"a":1}`), event(""),
		{Kind: KindEvent, Host: HostPi, Role: RoleObserve, Flags: FlagOversize, Peer: 1 << 22, Control: []byte{}, Body: []byte{}},
		{Kind: KindControl, Control: []byte(`{"verb":"status"}`), Body: []byte("doc")},
	} {
		got, err := read(AppendRequest(nil, req), limits)
		if err != nil || !reflect.DeepEqual(got, req) {
			t.Errorf("got %+v, %v; want %+v", got, err, req)
		}
	}
}

func TestRequestRefusals(t *testing.T) {
	good := AppendRequest(nil, event("payload"))
	change := func(at int, to byte) []byte {
		b := bytes.Clone(good)
		b[at] = to
		return b
	}
	for name, b := range map[string][]byte{
		"another magic":             change(0, 'X'),
		"another version":           change(4, 2),
		"kind zero":                 change(5, 0),
		"a reply's kind":            change(5, byte(KindAnswer)),
		"no host":                   change(6, 0),
		"an unknown host":           change(6, 9),
		"no role":                   change(7, 0),
		"an unknown flag":           change(8, 0x80),
		"the flag of old gates":     change(8, 1),
		"no end mark":               change(len(good)-1, 'x'),
		"a control part":            AppendRequest(nil, Request{Kind: KindEvent, Host: HostClaude, Role: RoleDecide, Control: []byte("{}")}),
		"control with host":         AppendRequest(nil, Request{Kind: KindControl, Host: HostClaude, Control: []byte("{}")}),
		"control with a peer":       AppendRequest(nil, Request{Kind: KindControl, Peer: 1, Control: []byte("{}")}),
		"control that says nothing": AppendRequest(nil, Request{Kind: KindControl}),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := read(b, limits); !errors.Is(err, ErrFrame) {
				t.Errorf("got %v, want ErrFrame", err)
			}
		})
	}
	for n := range good {
		if _, err := read(good[:n], limits); err == nil || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d of %d bytes: %v", n, len(good), err)
		}
	}
}

// TestLengthsBeforeAllocation: a length over the limit is refused by the header
// alone, also when the caller's limit is absurd.
func TestLengthsBeforeAllocation(t *testing.T) {
	big := AppendRequest(nil, event(strings.Repeat("x", 100)))
	if _, err := ReadHeader(bytes.NewReader(big), Limits{Body: 99}); !errors.Is(err, ErrFrame) {
		t.Errorf("100 bytes under a limit of 99: %v", err)
	}
	big[16], big[17], big[18], big[19] = 0xff, 0xff, 0xff, 0xff
	if _, err := ReadHeader(bytes.NewReader(big), Limits{Control: 1 << 40, Body: 1 << 40}); !errors.Is(err, ErrFrame) {
		t.Errorf("4 GiB under no limit of the caller's: %v", err)
	}
}

func TestReplyRoundTripAndRefusals(t *testing.T) {
	want := Reply{Kind: KindAnswer, Exit: 2, Out: []byte("out"), Err: []byte("err")}
	good := AppendReply(nil, want)
	got, err := ReadReply(bytes.NewReader(good), MaxOutput)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v", got, err)
	}
	for n := range good {
		if _, err := ReadReply(bytes.NewReader(good[:n]), MaxOutput); err == nil {
			t.Errorf("%d of %d bytes were a reply", n, len(good))
		}
	}
	for name, at := range map[string]int{"magic": 0, "version": 4, "end mark": len(good) - 1} {
		b := bytes.Clone(good)
		b[at] ^= 0x40
		if _, err := ReadReply(bytes.NewReader(b), MaxOutput); !errors.Is(err, ErrFrame) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	if _, err := ReadReply(bytes.NewReader(good), 2); !errors.Is(err, ErrFrame) {
		t.Errorf("3 bytes under a limit of 2: %v", err)
	}
}

func FuzzReadRequest(f *testing.F) {
	f.Add(AppendRequest(nil, event("x")))
	f.Add(AppendRequest(nil, Request{Kind: KindControl, Control: []byte("{}"), Body: []byte("y")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		req, err := read(b, limits)
		if err != nil {
			return
		}
		if again := AppendRequest(nil, req); !bytes.Equal(again, b[:len(again)]) {
			t.Errorf("% x was read as the request % x", b, again)
		}
	})
}

func FuzzReadReply(f *testing.F) {
	f.Add(AppendReply(nil, Reply{Kind: KindAnswer, Exit: 2, Out: []byte("a"), Err: []byte("b")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := ReadReply(bytes.NewReader(b), MaxOutput); err == nil && len(r.Out)+len(r.Err) > len(b) {
			t.Errorf("%d bytes gave %d and %d", len(b), len(r.Out), len(r.Err))
		}
	})
}

// TestResultFrame: a result that was written behind its header's place is the
// frame that AppendReply makes of it.
func TestResultFrame(t *testing.T) {
	for _, text := range []string{"", `{"time":"x"}`} {
		got := ResultFrame(append(make([]byte, ReplySize), text...), 1)
		if want := AppendReply(nil, Reply{Kind: KindResult, Exit: 1, Out: []byte(text)}); !bytes.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
