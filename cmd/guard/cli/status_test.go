package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"leaseguard.internal/internal/wire"
)

func TestFind(t *testing.T) {
	sessions := []wire.Session{{ID: "aa11"}, {ID: "aa12"}, {ID: "bb"}, {ID: "bbc"}}
	for _, tc := range []struct{ prefix, want, err string }{
		{"aa11", "aa11", ""}, {"aa12", "aa12", ""}, {"bb", "bb", ""}, {"bbc", "bbc", ""}, {"b", "", "bb and bbc"},
		{"aa1", "", "aa11 and aa12"}, {"", "", "no live session"}, {"c", "", "no live session"}, {"aa113", "", "no live session"},
		{"a\x1b[31m", "", `"a\x1b[31m"`},
	} {
		t.Run(tc.prefix, func(t *testing.T) {
			s, err := find(sessions, tc.prefix)
			if s.ID != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("find = %q, %v; want %q, %q", s.ID, err, tc.want, tc.err)
			}
		})
	}
}

func TestRemedy(t *testing.T) {
	for _, tc := range []struct {
		name string
		s    wire.Session
		want string
	}{
		{"verified", wire.Session{State: "VERIFIED", Launched: true, GateSeen: true}, ""},
		{"not launched", wire.Session{State: "UNVERIFIED"}, "wait"},
		{"locked", wire.Session{State: "UNVERIFIED", Launched: true, GateSeen: true, Alarm: "ungated_call", Reason: "alarm"}, "guard approve ab --clear-alarm"},
		{"unseen", wire.Session{State: "UNVERIFIED", Launched: true}, "one tool call"},
		{"waiting", wire.Session{State: "UNVERIFIED", Launched: true, Host: "waiting"}, "launch it again"},
		{"pending", wire.Session{State: "PENDING_VERIFICATION", Launched: true, GateSeen: true}, "guard promote ab"},
		{"revoked", wire.Session{State: "UNVERIFIED", Launched: true, GateSeen: true, Reason: "revoked"}, "guard approve ab"},
		{"a state of a later broker", wire.Session{State: "FROZEN", Launched: true, GateSeen: true}, "guard approve ab"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			why, next := remedy("ab", tc.s)
			if (next == "") != (tc.want == "") || !strings.Contains(next, tc.want) || !strings.Contains(why, tc.s.Reason) {
				t.Errorf("remedy = %q, %q; want %q", why, next, tc.want)
			}
		})
	}
}

func TestShortIDs(t *testing.T) {
	ids := func(list ...string) []wire.Session {
		var s []wire.Session
		for _, id := range list {
			s = append(s, wire.Session{ID: id})
		}
		return s
	}
	for _, tc := range []struct {
		in   []wire.Session
		want []string
	}{
		{ids("0123456789"), []string{"012345"}},
		{ids("0123456789", "0123456889"), []string{"01234567", "01234568"}},
		{ids("ab", "abcdefgh"), []string{"ab", "abcdef"}},
		{ids("same", "same"), []string{"same", "same"}},
	} {
		if diff := cmp.Diff(tc.want, shortIDs(tc.in)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestPrintStatus(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	broker := wire.BrokerStatus{PID: 7, Version: "0.1.0", Mode: "user", Started: at, ZVM: "https://zvm.example",
		Config: "/home/u/.config/guard/guard.toml", Assurance: wire.Assurance{Identity: "pidfs", Operator: "cooperative", Cgroup: "absent"}}
	st := &wire.Status{Broker: broker, Sessions: []wire.Session{
		{ID: "aaaaaaaa", Runtime: "exec", State: "VERIFIED", AnchorPID: 11, ExpiresInS: 252, Launched: true, GateSeen: true, Enforced: true, Cgroup: "user-scope",
			Calls: 3, Denied: 1, Command: "/usr/bin/agent", LastDenial: &wire.Denial{Tool: "Ba\nsh", Code: "lease_unverified", Time: at},
			LastCheckpoint: &wire.CheckpointInfo{VM: "app-01", VPG: "VPG-LOCAL", Tag: "guard x", ID: "41", Time: at.UTC(), Reused: true}},
		{ID: "bbbbbbbb", Runtime: "exec", State: "UNVERIFIED", AnchorPID: 12, Launched: true, Cgroup: "absent", Command: "/bin/sh\x1b[31m", Reason: "never verified"},
	}}
	st.Broker.AuditError, st.Broker.AuditFault, st.Broker.RunDir = "no space left", "the chain ends before the stored head", "/run/user/1000/guard"
	var out bytes.Buffer
	Command{Stdout: &out}.printStatus(&out, st)
	want := `broker     pid 7, version 0.1.0, user mode, up since ` + dayTime(at) + `
assurance  identity pidfs, operator cooperative (stops mistakes, not an attacker of the same uid; guard init --passphrase does more), cgroup absent
zvm        https://zvm.example
config     /home/u/.config/guard/guard.toml
sockets    "/run/user/1000/guard"
fault      no space left: nothing can be approved. Next: make room or repair, then: guard broker restart
fault      the chain ends before the stored head. Next: guard audit verify

SESSION  RUNTIME  STATE       LEFT   GATE    PID  CALLS  DENIED  COMMAND
aaaaaa   exec     VERIFIED    4m12s  seen    11   3      1       /usr/bin/agent
bbbbbb   exec     UNVERIFIED  -      unseen  12   0      0       /bin/sh [31m

aaaaaa  cgroup user-scope
aaaaaa  last denial ` + dayTime(at) + `: "Ba\nsh", lease_unverified
aaaaaa  last checkpoint ` + dayTime(at) + ` of "app-01" in "VPG-LOCAL": tag "guard x", id "41" (reused)
bbbbbb  UNVERIFIED, never verified, and no event has come through its gate. Next: the fault above, which stops every approval; then one tool call of it, a read will do, then guard approve bbbbbb
bbbbbb  nothing is enforced against it: it is root's, or has capabilities that root has
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	out.Reset()
	Command{Stdout: &out}.printStatus(&out, &wire.Status{})
	if !strings.Contains(out.String(), "no sessions. Next: guard launch claude") {
		t.Errorf("without sessions: %s", &out)
	}
}

// A broken guard.toml is said once, with one way out, and by the command of the
// mode.
func TestConfigRow(t *testing.T) {
	h := newHome(t)
	row := (Command{Env: h.env}).configRow(wire.BrokerStatus{Mode: "user", Config: h.paths.Config, ConfigError: "guard.toml:3: what"})
	want := "is in force, since the new one is refused: guard.toml:3: what. Next: correct it, then: guard broker restart"
	if row[0].text != "config" || !strings.HasSuffix(row[1].text, want) {
		t.Errorf("config %q, want %q", row[1].text, want)
	}
	if next := reload("system") + restart("system"); strings.Contains(next, "guard broker") {
		t.Errorf("in system mode: %q", next)
	}
}

// What the broker loaded is compared with what stands there now.
func TestConfigText(t *testing.T) {
	h := newHome(t)
	if err := os.MkdirAll(filepath.Dir(h.paths.Config), 0o700); err != nil {
		t.Fatal(err)
	}
	c := Command{Env: h.env}
	early, late := time.Unix(1, 0), time.Now().Add(time.Hour)
	for _, tc := range []struct {
		name, loaded string
		there        bool
		started      time.Time
		want         string
	}{
		{"defaults", "", false, late, "none: defaults. Next: guard init"},
		{"not loaded yet", "", true, late, "guard.toml\", not loaded yet. Next: guard broker restart"},
		{"loaded", h.paths.Config, true, late, "guard.toml\""},
		{"changed", h.paths.Config, true, early, "guard.toml\", changed since it was loaded. Next: guard broker restart"},
		{"removed", h.paths.Config, false, late, "guard.toml\", which is not there any more. Next: guard broker restart"},
		{"of another environment", "/elsewhere/guard.toml", true, late, "of this shell's environment"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_ = os.Remove(h.paths.Config) // of the case before
			if tc.there {
				if err := os.WriteFile(h.paths.Config, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := c.configText(wire.BrokerStatus{Config: tc.loaded, ConfigRead: tc.started}); !strings.HasSuffix(got, tc.want) {
				t.Errorf("config %q, want %q", got, tc.want)
			}
		})
	}
}
