package broker

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"leaseguard.internal/broker/session"
	"leaseguard.internal/internal/wire"
)

// TestLongNames: a name or id of megabytes is refused before anything is made of
// it, and nothing of it is kept.
func TestLongNames(t *testing.T) {
	f := newFixture(t, nil)
	f.session()
	const long = 1 << 20
	ask := func(key string, length int) wire.Reply {
		fields := map[string]string{"session_id": "s", "tool_name": "Read", key: strings.Repeat("x", length)}
		body := `{"hook_event_name":"PreToolUse","tool_input":{}`
		for k, v := range fields {
			body += fmt.Sprintf(`,%q:%q`, k, v)
		}
		return f.send(wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleDecide, Body: []byte(body + "}")})
	}
	before := held()
	for _, key := range []string{"session_id", "tool_name", "tool_use_id", "agent_id", "agent_type", "cwd", "source", "permission_mode"} {
		if r := ask(key, maxName); strings.Contains(string(r.Err), "malformed") {
			t.Errorf("a %s of %d bytes: %s", key, maxName, r.Err)
		}
		f.expect(ask(key, long), "malformed")
	}
	if more := held() - before; more > long/2 {
		t.Errorf("%d bytes are kept", more)
	}
}

// held is what the heap holds that isn't garbage.
func held() int64 {
	var m runtime.MemStats
	for range 3 { // what pools give up takes two
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestNothingExcusesNothing: a tool ends as a gate on the stdin that the host gave
// it and closed. That excuses no call that never asked.
func TestNothingExcusesNothing(t *testing.T) {
	for body, excused := range map[string]bool{"": false, "{": true} {
		f := newFixture(t, nil)
		s := f.verified()
		f.expect(f.send(wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleDecide, Body: []byte(body)}), "malformed")
		if _, _, is := f.sessions.ByID(s.ID).Recall(session.NewCallKey("s", "unknown")); is != excused {
			t.Errorf("after %q a call that never asked is excused: %v", body, is)
		}
	}
}
