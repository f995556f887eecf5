package recovery

import (
	"bufio"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/wire"
)

// TestHostileArguments: every call with arguments that are not exactly the two
// forms is an answer that fails, asks the broker nothing and leaves the server
// as it was.
func TestHostileArguments(t *testing.T) {
	b := newBroker(t).listen()
	h := serve(b)
	replies := bufio.NewScanner(h.out)
	replies.Buffer(nil, 1<<20)
	next := func() string {
		t.Helper()
		if !replies.Scan() {
			t.Fatalf("the server ended: %v", replies.Err())
		}
		return replies.Text()
	}
	h.say(initialize, initialized)
	next()
	for name, arguments := range hostileArguments {
		if h.say(callLine(arguments)); !strings.Contains(next(), `"isError":true`) {
			t.Errorf("%s: the call didn't fail: %s", name, replies.Text())
		}
		if got := replies.Text(); !strings.Contains(got, "guard: malformed: ") {
			t.Errorf("%s: %s", name, got)
		}
	}
	for name, line := range map[string]string{
		"unknown method": `{"jsonrpc":"2.0","id":2,"method":"nope"}`,
		"unknown tool":   `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"Recover","arguments":{}}}`,
		"no tool":        `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{}}`,
		"no parameters":  `{"jsonrpc":"2.0","id":2,"method":"tools/call"}`,
		"resources":      `{"jsonrpc":"2.0","id":2,"method":"resources/list"}`,
		"log level":      `{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"debug"}}`,
	} {
		h.say(line)
		if got := next(); strings.Contains(got, "lgt_") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if b.asks() != 0 {
		t.Errorf("the broker was asked %d times", b.asks())
	}
	if h.say(callLine(`{}`)); !strings.Contains(next(), tokenText) {
		t.Errorf("a good call after the bad ones: %s", replies.Text())
	}
}

// TestHostileMessages: what isn't a message ends the server with an error that
// repeats nothing of it.
func TestHostileMessages(t *testing.T) {
	for name, line := range map[string]string{
		"no JSON":          "recover " + tokenText,
		"cut":              strings.TrimSuffix(callLine(`{"token":"`+tokenText+`"}`), "}"),
		"two on a line":    callLine(`{}`) + callLine(`{"token":"`+tokenText+`"}`),
		"a batch":          `[` + callLine(`{"token":"`+tokenText+`"}`) + `]`,
		"a number":         `7`,
		"no version":       `{"id":2,"method":"tools/call","params":{"name":"recover"}}`,
		"huge":             callLine(`{"token":"` + strings.Repeat("x", maxMessage) + `"}`),
		"deep":             callLine(strings.Repeat(`{"a":`, 2000) + `1` + strings.Repeat(`}`, 2000)),
		"endless nesting":  strings.Repeat("[", maxMessage+1),
		"endless blanks":   strings.Repeat(" ", maxMessage+1),
		"NUL":              "\x00",
		"a terminal's ESC": "\x1b[31m" + tokenText,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBroker(t).listen()
			h := serve(b)
			met, drained := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(drained)
				s := bufio.NewScanner(h.out)
				s.Scan()
				close(met)
				for s.Scan() {
				}
			}()
			h.say(initialize, initialized)
			<-met                       // what a batch is depends on the version that both have agreed on
			go h.say(line, initialized) // nobody may read it to its end
			err := <-h.done
			if err == nil || strings.ContainsAny(err.Error(), "\x1b\x00") || strings.Contains(err.Error(), "lgt_") {
				t.Errorf("Serve = %v, want an error without the input", err)
			}
			<-drained
			if b.asks() != 0 {
				t.Errorf("the broker was asked %d times", b.asks())
			}
		})
	}
}

// TestManyCallsAtOnce: one is carried out after the other, all are answered.
func TestManyCallsAtOnce(t *testing.T) {
	b := newBroker(t).listen()
	h := serve(b)
	const calls = 64
	go func() {
		h.say(initialize, initialized)
		for i := range calls {
			h.say(strings.Replace(callLine(`{}`), `"id":2`, `"id":`+string(rune('1'+i/10))+string(rune('0'+i%10)), 1))
		}
	}()
	ids := map[float64]bool{}
	replies := bufio.NewScanner(h.out)
	for replies.Scan() {
		var r struct {
			ID float64 `json:"id"`
		}
		if err := json.Unmarshal(replies.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if ids[r.ID] = true; len(ids) == calls+1 {
			break
		}
	}
	if len(ids) != calls+1 || b.asks() != calls {
		t.Errorf("%d of %d calls were answered, the broker was asked %d times", len(ids)-1, calls, b.asks())
	}
}

// TestPanicIsAnAnswer: a fault inside is told to the host, and ends nothing.
func TestPanicIsAnAnswer(t *testing.T) {
	res, err := (&tool{}).handle(t.Context(), nil)
	if err != nil || !res.IsError {
		t.Fatalf("handle = %+v, %v", res, err)
	}
}

// TestUnusableAnswers: what the broker says is checked before a model is told
// that anything was granted.
func TestUnusableAnswers(t *testing.T) {
	good := wire.Grant{Session: "s1", Generation: 1, Cycle: 1, State: "PENDING_VERIFICATION", Token: tokenText, TokenInS: 60}
	for name, tc := range map[string]struct {
		arguments any
		change    func(*wire.Grant)
	}{
		"begin: verified":          {nil, func(g *wire.Grant) { g.State = "VERIFIED" }},
		"begin: no token":          {nil, func(g *wire.Grant) { g.Token = "" }},
		"begin: odd token":         {nil, func(g *wire.Grant) { g.Token = `lgt_"}` }},
		"begin: void token":        {nil, func(g *wire.Grant) { g.TokenInS = 0 }},
		"promote: pending":         {map[string]any{"token": tokenText}, func(g *wire.Grant) { g.ExpiresInS = 300 }},
		"promote: expired at once": {map[string]any{"token": tokenText}, func(g *wire.Grant) { g.State = "VERIFIED" }},
		"promote: no state":        {map[string]any{"token": tokenText}, func(g *wire.Grant) { g.State, g.ExpiresInS = "", 300 }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBroker(t)
			b.reply = func(wire.Control) wire.Result {
				g := good
				tc.change(&g)
				return wire.Result{Grant: &g}
			}
			text, failed := call(t, serve(b.listen()).connect(), tc.arguments)
			if !failed || !strings.HasPrefix(text, "guard: internal: ") || strings.Contains(text, tokenText) {
				t.Errorf("failed %v: %s", failed, text)
			}
		})
	}
	b := newBroker(t)
	b.reply = func(wire.Control) wire.Result { return wire.Result{} }
	if text, failed := call(t, serve(b.listen()).connect(), nil); !failed {
		t.Errorf("no grant at all: %s", text)
	}
}

func (b *broker) asks() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.asked)
}
