package broker

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/wire"
)

// pre asks about the call "1"; post tells that it ran.
func (f *fixture) pre(tool, input string) wire.Reply {
	f.t.Helper()
	return f.send(f.hook("PreToolUse", wire.RoleDecide, "1", tool, input))
}

func (f *fixture) post(id, tool, input string) {
	f.t.Helper()
	if r := f.send(f.hook("PostToolUse", wire.RoleObserve, id, tool, input)); r.Exit != 0 || len(r.Out)+len(r.Err) != 0 {
		f.t.Fatalf("an observer was answered exit %d, %s%s", r.Exit, r.Out, r.Err)
	}
}

func (f *fixture) hook(event string, role wire.Role, id, tool, input string) wire.Request {
	return wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: role, Body: fmt.Appendf(nil,
		`{"hook_event_name":%q,"session_id":"s","tool_use_id":%q,"tool_name":%q,"tool_input":%s,"duration_ms":5}`, event, id, tool, input)}
}

// alarmOf is what the session is locked by.
func (f *fixture) alarmOf(s wire.Session) string { return f.sessions.ByID(s.ID).Alarm() }

// TestS1_Alarms: what ran is held against what was answered. The denied call
// that ran all the same is case S1.
func TestS1_Alarms(t *testing.T) {
	const a, b = `{"x":1,"y":2}`, `{"x":1,"y":3}`
	tests := []struct {
		name string
		play func(*fixture, wire.Session)
		want string
	}{
		{"denied, yet it ran", func(f *fixture, s wire.Session) {
			f.verb(context.Background(), wire.Control{Verb: wire.VerbRevoke, Session: s.ID}, nil)
			f.expect(f.pre("Write", a), "lease_revoked")
			f.post("1", "Write", a)
		}, "verdict_ignored"},
		{"nobody asked", func(f *fixture, _ wire.Session) { f.post("9", "Write", a) }, "ungated_call"},
		{"another input ran", func(f *fixture, _ wire.Session) {
			f.expect(f.pre("Write", a), "")
			f.post("1", "Write", b)
		}, "input_changed"},
		{"asked, and the lease was gone when it ran", func(f *fixture, s wire.Session) {
			f.pre("mcp__x__y", a)
			f.verb(context.Background(), wire.Control{Verb: wire.VerbRevoke, Session: s.ID}, nil)
			f.post("1", "mcp__x__y", a)
		}, "asked_ran_without_lease"},
		{"the same, written otherwise", func(f *fixture, _ wire.Session) {
			f.expect(f.pre("Write", a), "")
			f.post("1", "Write", `{ "y": 2, "x": 1 }`)
		}, ""},
		{"asked, and it ran under the lease", func(f *fixture, _ wire.Session) {
			f.pre("mcp__x__y", a)
			f.post("1", "mcp__x__y", a)
		}, ""},
		{"a read that passed", func(f *fixture, _ wire.Session) {
			f.expect(f.pre("Read", `{}`), "")
			f.post("1", "Read", `{}`)
		}, ""},
		{"it ran on after its lease", func(f *fixture, s wire.Session) {
			f.expect(f.pre("Write", a), "")
			f.verb(context.Background(), wire.Control{Verb: wire.VerbRevoke, Session: s.ID}, nil)
			f.post("1", "Write", a)
		}, ""},
		{"a person completed it", func(f *fixture, _ wire.Session) {
			f.expect(f.pre("AskUserQuestion", a), "")
			f.post("1", "AskUserQuestion", b)
		}, ""},
		{"refused before it was parsed", func(f *fixture, _ wire.Session) {
			f.expect(f.send(wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleDecide, Body: []byte("{")}), "malformed")
			f.post("1", "Write", a)
		}, ""},
		{"asked twice, the later answer counts", func(f *fixture, s wire.Session) {
			f.expect(f.pre("Write", a), "")
			f.verb(context.Background(), wire.Control{Verb: wire.VerbRevoke, Session: s.ID}, nil)
			f.expect(f.pre("Write", a), "lease_revoked")
			f.post("1", "Write", a)
		}, "verdict_ignored"},
		{"an earlier broker may have answered", func(f *fixture, _ wire.Session) {
			f.expect(f.pre("Write", a), "")
			f.stop()
			f.start(nil)
			f.post("1", "Write", a)
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, nil)
			s := f.verified()
			tt.play(f, s)
			if got := f.alarmOf(s); got != tt.want {
				t.Fatalf("alarm %q, want %q", got, tt.want)
			}
			if tt.want != "" {
				f.lockedUntilCleared(s)
			}
		})
	}
}

// lockedUntilCleared: an alarm revokes, and no promotion comes through before an
// operator clears it, after a restart neither.
func (f *fixture) lockedUntilCleared(s wire.Session) {
	f.t.Helper()
	for range 2 {
		f.expect(f.ask("Write"), "lease_"+map[bool]string{true: "revoked", false: "unverified"}[!f.sessions.ByID(s.ID).Restored])
		if r := f.approve(s.ID); r.Error == nil || r.Error.Code != "alarm_raised" {
			f.t.Fatalf("approved in spite of an alarm: %+v", r)
		}
		f.stop()
		f.start(nil)
	}
	ctl := wire.Control{Verb: wire.VerbApprove, Session: s.ID, ClearAlarm: true, Documents: []wire.Document{{Name: "AGENTS.md", Missing: true}}}
	if r := f.verb(context.Background(), ctl, nil); r.Error != nil {
		f.t.Fatalf("approving with the alarm cleared: %v", r.Error)
	}
	f.expect(f.ask("Write"), "")
	found := false
	f.eventually("the alarm is recorded", func() bool {
		f.must(audit.Read(f.opt.Paths.AuditDir, func(r audit.Record, _ []byte) error {
			found = found || r.Event == audit.EventAlarm && strings.Contains(r.Reason, "tool ")
			return nil
		}))
		return found
	})
}

// TestManagedSettingsChanged: what an administrator changes takes effect in the
// host whatever the gate answers; the session is locked. Other settings are kept
// from taking effect, and change nothing.
func TestManagedSettingsChanged(t *testing.T) {
	for source, want := range map[string]string{"policy_settings": "managed_settings_changed", "user_settings": ""} {
		f := newFixture(t, nil)
		s := f.verified()
		f.expect(f.send(wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleDecide,
			Body: fmt.Appendf(nil, `{"hook_event_name":"ConfigChange","session_id":"s","source":%q}`, source)}), "config_change")
		if got := f.alarmOf(s); got != want {
			t.Errorf("%s: alarm %q, want %q", source, got, want)
		}
	}
}
