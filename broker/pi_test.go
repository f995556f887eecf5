package broker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// pi sends one of Pi's events, as guard's extension words it.
func (f *fixture) pi(event, host, more string) wire.Reply {
	f.t.Helper()
	role := wire.RoleObserve
	if event == "tool_call" || event == "user_bash" {
		role = wire.RoleDecide
	}
	return f.send(wire.Request{Kind: wire.KindEvent, Host: wire.HostPi, Role: role, Body: fmt.Appendf(nil, `{"hook_event_name":%q,"session_id":%q%s}`, event, host, more)})
}

// piCall is what a tool's events say of the call "1".
func piCall(tool, input string) string {
	return fmt.Sprintf(`,"tool_name":%q,"tool_input":%s,"tool_use_id":"1","duration_ms":5`, tool, input)
}

// piVerified is a session of Pi's with a lease.
func (f *fixture) piVerified() wire.Session {
	f.t.Helper()
	s := f.session()
	f.pi("session_start", "a", `,"source":"startup"`)
	f.piApproved(s)
	return s
}

func (f *fixture) piApproved(s wire.Session) {
	f.t.Helper()
	if r := f.approve(s.ID); r.Error != nil || r.Grant.State != "VERIFIED" {
		f.t.Fatalf("approving: %+v %v", r.Grant, r.Error)
	}
	f.piExpect(f.pi("tool_call", "a", piCall("bash", `{}`)), "")
}

func (f *fixture) piExpect(r wire.Reply, code verdict.Code) {
	f.t.Helper()
	switch {
	case code == "" && (r.Exit != 0 || !strings.HasPrefix(string(r.Out), `{"pass":true`)):
		f.t.Fatalf("want a pass, got exit %d: %s", r.Exit, r.Err)
	case code != "" && (r.Exit != 2 || !strings.HasPrefix(string(r.Err), "guard: "+string(code)+":") || !strings.HasPrefix(string(r.Out), `{"block":true,"reason":"guard: `+string(code)+`:`)):
		f.t.Fatalf("want %s, got exit %d: %s%s", code, r.Exit, r.Err, r.Out)
	}
}

// TestS5_PiMutators: without a lease nothing but the tools that read, by their
// very names, is let through; a person's own shell line neither.
func TestS5_PiMutators(t *testing.T) {
	f := newFixture(t, nil)
	s := f.session()
	f.pi("session_start", "a", `,"source":"startup"`)
	names := []string{"bash", "edit", "write", "powershell", "codemode", "tool_search", "Read", "reader", "mcp__fs__read", "monitor"}
	for _, name := range names {
		f.piExpect(f.pi("tool_call", "a", piCall(name, `{"path":"a"}`)), verdict.LeaseUnverified)
	}
	f.piExpect(f.pi("user_bash", "a", `,"tool_name":"user_bash","tool_input":{"command":"id"}`), verdict.LeaseUnverified)
	for _, name := range []string{"read", "grep", "find", "ls"} {
		f.piExpect(f.pi("tool_call", "a", piCall(name, `{"path":"a"}`)), "")
	}
	f.piExpect(f.pi("tool_call", "a", piCall("read", `{"path":"@`+f.opt.Paths.Config+`"}`)), verdict.GuardFile)
	f.piApproved(s)
	f.piExpect(f.pi("user_bash", "a", `,"tool_name":"user_bash","tool_input":{"command":"id"}`), "")
	f.piExpect(f.pi("tool_call", "a", piCall("tool_search", `{}`)), "")
}

// What Claude would ask a person about is a denial in Pi, which would run it.
func TestPiCantAsk(t *testing.T) {
	f := newFixture(t, nil)
	f.piVerified()
	r := f.pi("tool_call", "a", piCall("mcp__x__y", `{}`))
	f.piExpect(r, verdict.ToolUnlisted)
	if !strings.Contains(string(r.Err), "this host can ask nobody") {
		t.Errorf("the reason doesn't say so: %s", r.Err)
	}
	f.pi("tool_result", "a", piCall("mcp__x__y", `{}`))
	if got := f.alarmOf(wire.Session{ID: f.sessions.All()[0].ID}); got != alarmIgnored {
		t.Errorf("it ran all the same: alarm %q", got)
	}
}

// TestS1_PiAlarms: what ran in Pi is held against what was answered, as in Claude.
func TestS1_PiAlarms(t *testing.T) {
	for _, tt := range []struct {
		name string
		play func(*fixture, wire.Session)
		want string
	}{
		{"denied, yet it ran", func(f *fixture, s wire.Session) {
			f.verb(context.Background(), wire.Control{Verb: wire.VerbRevoke, Session: s.ID}, nil)
			f.piExpect(f.pi("tool_call", "a", piCall("write", `{"x":1}`)), verdict.LeaseRevoked)
			f.pi("tool_result", "a", piCall("write", `{"x":1}`))
		}, alarmIgnored},
		{"nobody asked", func(f *fixture, _ wire.Session) {
			f.pi("tool_result", "a", strings.Replace(piCall("write", `{}`), `"1"`, `"9"`, 1))
		}, alarmUngated},
		{"another input ran", func(f *fixture, _ wire.Session) {
			f.piExpect(f.pi("tool_call", "a", piCall("write", `{"x":1}`)), "")
			f.pi("tool_result", "a", piCall("write", `{"x":2}`))
		}, alarmInput},
		{"it ran as it was judged", func(f *fixture, _ wire.Session) {
			f.piExpect(f.pi("tool_call", "a", piCall("write", `{"x":1}`)), "")
			f.pi("tool_result", "a", piCall("write", `{"x":1}`))
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, nil)
			s := f.piVerified()
			tt.play(f, s)
			if got := f.alarmOf(s); got != tt.want {
				t.Fatalf("alarm %q, want %q", got, tt.want)
			}
			if r := f.pi("tool_call", "a", piCall("bash", `{}`)); tt.want != "" && r.Exit != 2 {
				t.Error("an alarm leaves the lease")
			}
		})
	}
}

// TestR1_PiLostContext: each of Pi's events that tells of another conversation
// takes the lease, alone.
func TestR1_PiLostContext(t *testing.T) {
	for _, tt := range []struct{ name, event, host, more string }{
		{"before a compaction", "session_before_compact", "a", `,"reason":"threshold"`},
		{"after a compaction", "session_compact", "a", ""},
		{"before another session", "session_before_switch", "a", `,"reason":"new"`},
		{"before a fork", "session_before_fork", "a", ""},
		{"another branch", "session_tree", "a", ""},
		{"a resumed session", "session_start", "a", `,"source":"resume"`},
		{"a reload", "session_start", "a", `,"source":"reload"`},
		{"another session id", "tool_call", "b", piCall("read", `{"path":"x"}`)},
		{"a start with another id", "session_start", "b", `,"source":"startup"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.piVerified()
			f.pi(tt.event, tt.host, tt.more)
			f.piExpect(f.pi("tool_call", tt.host, piCall("bash", `{}`)), verdict.LeaseRevoked)
			f.piExpect(f.pi("tool_call", "a", piCall("bash", `{}`)), verdict.LeaseRevoked) // a late one of the first
		})
	}
}

// TestR2_PiSessionIDs: a session id of the host's carries nothing over.
func TestR2_PiSessionIDs(t *testing.T) {
	f := newFixture(t, nil)
	f.piVerified()
	f.stop()
	f.start(nil)
	f.pi("session_start", "a", `,"source":"startup"`)
	f.piExpect(f.pi("tool_call", "a", piCall("bash", `{}`)), verdict.LeaseUnverified)
}

// TestPiHandshake: after Pi has taken its extensions down the session is dead
// until guard's greets again.
func TestPiHandshake(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after func(*fixture)
		dead  bool
	}{
		{"silence", func(*fixture) {}, true},
		{"a call of what is taken down", func(f *fixture) { f.pi("tool_call", "a", piCall("read", `{"path":"x"}`)) }, true},
		{"its result", func(f *fixture) { f.pi("tool_result", "a", piCall("write", `{}`)) }, true},
		{"a greeting", func(f *fixture) { f.pi("session_start", "b", `,"source":"new"`) }, false},
		{"a greeting, and down again", func(f *fixture) {
			f.pi("session_start", "b", `,"source":"new"`)
			f.pi("session_shutdown", "b", `,"reason":"new"`)
		}, true},
		{"two, of which one greets", func(f *fixture) {
			f.pi("session_shutdown", "b", `,"reason":"reload"`)
			f.pi("session_start", "b", `,"source":"reload"`)
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, nil)
			s := f.piVerified()
			f.pi("session_shutdown", "a", `,"reason":"new"`)
			tt.after(f)
			view := f.sessions.ByID(s.ID).View(f.clock.Now())
			f.piExpect(f.pi("tool_call", "b", piCall("bash", `{}`)), verdict.LeaseRevoked)
			r := f.approve(s.ID)
			if !tt.dead {
				if r.Error != nil || r.Grant.State != "VERIFIED" {
					t.Fatalf("it greeted, and can't be approved: %+v", r)
				}
				return
			}
			if r.Error == nil || r.Error.Code != string(verdict.GateUnseen) || view.GateSeen || view.State != "UNVERIFIED" {
				t.Fatalf("approved %+v, shown as %+v", r, view)
			}
			if tt.name == "silence" && view.Host != "waiting" {
				t.Errorf("shown as %s", view.Host)
			}
		})
	}
}

// What parted stays so when the broker starts anew: what is stored never says more
// than what was known.
func TestPiHandshakeIsStored(t *testing.T) {
	f := newFixture(t, nil)
	s := f.piVerified()
	f.pi("session_shutdown", "a", `,"reason":"quit"`)
	f.stop()
	f.start(nil)
	if r := f.approve(s.ID); r.Error == nil || r.Error.Code != string(verdict.GateUnseen) {
		t.Fatalf("approved after a restart: %+v", r)
	}
}

// An unattended session has launch.prove_timeout to greet again, and not what is
// left since its start.
func TestPiHandshakeHasItsTime(t *testing.T) {
	f := newFixture(t, func(c *config.Config) { c.Launch.Unproved = "end" })
	s := f.sessions.ByID(f.piVerified().ID)
	f.clock.Advance(time.Hour)
	f.pi("session_shutdown", "a", `,"reason":"new"`)
	if unseen := s.Unseen(f.clock.Now()); unseen != 0 {
		t.Errorf("unseen for %v at once", unseen)
	}
	f.clock.Advance(time.Minute)
	if unseen := s.Unseen(f.clock.Now()); unseen != time.Minute {
		t.Errorf("unseen for %v after a minute", unseen)
	}
}
