package gate

import (
	"bytes"
	"net"
	"strings"
	"testing"

	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

func TestBrokenRepliesDeny(t *testing.T) {
	good := wire.AppendReply(nil, pass)
	edit := func(at int, v byte) []byte {
		b := bytes.Clone(good)
		b[at] = v
		return b
	}
	frame := func(r wire.Reply) []byte { return wire.AppendReply(nil, r) }
	for name, b := range map[string][]byte{
		"nothing":              nil,
		"half a reply":         good[:len(good)-3],
		"half a header":        good[:9],
		"garbage":              []byte(strings.Repeat("HTTP/1.1 200 OK\r\n", 4)),
		"text of a host":       []byte(`{"hookSpecificOutput":{"permissionDecision":"allow"}}`),
		"wrong magic":          edit(0, 'X'),
		"request's magic":      edit(2, 'q'),
		"other version":        edit(4, 2),
		"a result":             edit(5, byte(wire.KindResult)),
		"an event":             edit(5, byte(wire.KindEvent)),
		"status 1":             edit(6, 1),
		"status 3":             edit(6, 3),
		"reserved byte set":    edit(9, 1),
		"output over the cap":  edit(13, 0xff),
		"length over 2 GiB":    edit(12, 0xff),
		"no end mark":          edit(len(good)-1, '!'),
		"bytes after the end":  append(bytes.Clone(good), 'x'),
		"two replies":          append(bytes.Clone(good), good...),
		"deny without reasons": frame(wire.Reply{Kind: wire.KindAnswer, Exit: 2}),
		"deny without stderr":  frame(wire.Reply{Kind: wire.KindAnswer, Exit: 2, Out: []byte("{}")}),
		"deny without stdout":  frame(wire.Reply{Kind: wire.KindAnswer, Exit: 2, Err: []byte("no")}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			br := serve(t, answer(b))
			wantDeny(t, runHook(t, hook(br.socket, "decide"), payload), verdict.BrokerUnavailable)
			if br.asked() != 1 {
				t.Errorf("%d connections: decide retried", br.asked())
			}
			if got := runHook(t, hook(br.socket, "observe"), payload); got != (result{}) {
				t.Errorf("observe: got %v, want silence", got)
			}
			if br.asked() != 3 {
				t.Errorf("%d connections, want 1 of decide and 2 of observe", br.asked())
			}
		})
	}
}

func TestObserverIsNeverRefused(t *testing.T) {
	b := serve(t, answerReply(wire.Reply{Kind: wire.KindAnswer, Exit: 2, Out: []byte("{}"), Err: []byte("no")}))
	if got := runHook(t, hook(b.socket, "observe"), payload); got != (result{}) {
		t.Errorf("got %v, want silence", got)
	}
}

func TestReplyInPieces(t *testing.T) {
	b := serve(t, func(conn *net.UnixConn, _ *wire.Request) {
		for _, c := range wire.AppendReply(nil, wire.Reply{Kind: wire.KindAnswer, Exit: 2, Out: []byte("{}"), Err: []byte("no")}) {
			_, _ = conn.Write([]byte{c})
		}
	})
	if got := runHook(t, hook(b.socket, "decide"), payload); got != (result{"{}", "no", 2}) {
		t.Errorf("got %v", got)
	}
}

// TestF5_OneDocument: the whole of stdout is one JSON document, whatever comes.
func TestF5_OneDocument(t *testing.T) {
	b := serve(t, answer([]byte("loading rules...\n"+string(wire.AppendReply(nil, pass)))))
	wantDeny(t, runHook(t, hook(b.socket, "decide"), payload), verdict.BrokerUnavailable)
}

// FuzzReply holds parseReply to wire.ReadReply, and to never reading past n.
func FuzzReply(f *testing.F) {
	good := wire.AppendReply(nil, wire.Reply{Kind: wire.KindAnswer, Exit: 2, Out: []byte("{}"), Err: []byte("no")})
	f.Add(good, false)
	f.Add(good[:19], true)
	f.Add(wire.AppendReply(nil, pass), true)
	f.Add(append(good, '.'), false)
	f.Fuzz(func(t *testing.T, b []byte, observe bool) {
		role := byte(roleDecide)
		if observe {
			role = roleObserve
		}
		buf := make([]byte, max(len(b), 20+2*maxOutput+len(endMark)+1))
		copy(buf, b)
		r, want := parseReply(buf, len(b), role)
		ref, err := wire.ReadReply(bytes.NewReader(b), wire.MaxOutput)
		if want == len(b) {
			if err != nil || ref.Kind != wire.KindAnswer || int(ref.Exit) != r.exit || !bytes.Equal(ref.Out, r.out) || !bytes.Equal(ref.Err, r.err) {
				t.Fatalf("taken as %v, wire says %v, %v", r, ref, err)
			}
			return
		}
		if r.exit != 0 || r.out != nil || r.err != nil {
			t.Fatalf("a reply %v from %d of %d bytes", r, len(b), want)
		}
		whole := err == nil && len(b) == 20+len(ref.Out)+len(ref.Err)+4
		answerable := ref.Exit == 0 || ref.Exit == 2 && !observe && len(ref.Out) > 0 && len(ref.Err) > 0
		if whole && answerable && ref.Kind == wire.KindAnswer && string(b[7:12]) == "\x00\x00\x00\x00\x00" {
			t.Fatalf("refused what wire takes: % x", b)
		}
	})
}
