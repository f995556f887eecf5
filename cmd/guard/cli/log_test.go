package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/wire"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.Local)

func TestLogLine(t *testing.T) {
	for _, tc := range []struct {
		name string
		r    audit.Record
		want string
	}{
		{"deny", audit.Record{Event: audit.EventVerdict, Verdict: "deny", Code: "lease_unverified", Session: "3f9a1c77", Tool: "Bash",
			Reason: "guard: lease_unverified: calling \"Bash\": no lease. Next: guard approve 3f9a1c77"},
			`12:00:00 deny    lease_unverified       3f9a1c "Bash": no lease`},
		{"pass with a checkpoint", audit.Record{Event: audit.EventVerdict, Verdict: "pass", Code: "checkpoint_confirmed", Session: "s", Tool: "Write",
			Targets: []string{"app-01"}, Checkpoint: []wire.CheckpointInfo{{VM: "app-01", VPG: "V", Tag: "t", ID: "4", Time: noon.UTC()}}},
			`12:00:00 pass    checkpoint_confirmed   s      "Write" checkpoint 12:00:00 of "app-01", id "4"`},
		{"ask", audit.Record{Event: audit.EventVerdict, Verdict: "ask", Code: "vm_unknown", Session: "s", Tool: "mcp__x", Targets: []string{"a", "b"}},
			`12:00:00 ask     vm_unknown             s      "mcp__x" on "a", "b"`},
		{"no verdict denies", audit.Record{Event: audit.EventVerdict, Code: "internal"}, `12:00:00 deny    internal`},
		{"counted", audit.Record{Event: audit.EventVerdict, Verdict: "deny", Code: "broker_busy", Count: 21}, `12:00:00 deny    broker_busy                   (21 times)`},
		{"lease", audit.Record{Event: audit.EventLease, Code: "promote", Session: "s", State: "VERIFIED"}, `12:00:00 lease   promote                s      VERIFIED`},
		{"ended: the whole id, to resume it", audit.Record{Event: audit.EventSession, Code: "ended", Session: "3f9a1c7788990011", Reason: "the anchor has exited"},
			`12:00:00 session ended                  3f9a1c --resume 3f9a1c7788990011: the anchor has exited`},
		{"who tried", audit.Record{Event: audit.EventBroker, Code: "passphrase_wrong", CallerPID: 4242, Reason: "verb \"approve\" for \"3f9a\""},
			`12:00:00 broker  passphrase_wrong              by pid 4242: verb "approve" for "3f9a"`},
		{"alarm", audit.Record{Event: audit.EventAlarm, Code: "token_used", Reason: "again"}, `12:00:00 ALARM   token_used                    again`},
		{"P7: a tool that draws lines", audit.Record{Event: audit.EventVerdict, Verdict: "deny", Code: "lease_unverified", Tool: "x\n12:00:00 pass\x1b[2K",
			Reason: "a\nb\x1b[1m"}, `12:00:00 deny    lease_unverified              "x\n12:00:00 pass\x1b[2K": a b [1m`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.r.Time = noon
			if got := (Command{}).logLine(tc.r); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// record writes n verdicts into a home's audit.
func record(t *testing.T, h home, n int) {
	t.Helper()
	if err := paths.EnsureDir(h.paths.AuditDir, uid()); err != nil {
		t.Fatal(err)
	}
	w, err := audit.Open(audit.Options{Dir: h.paths.AuditDir, Clock: clock.System{}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		r := audit.Record{Event: audit.EventVerdict, Session: fmt.Sprintf("s%d", i%2), Tool: "Bash", Verdict: "deny", Code: fmt.Sprintf("code_%d", i)}
		if _, err := w.Append(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestLogFilters(t *testing.T) {
	h := newHome(t)
	record(t, h, 6)
	for _, tc := range []struct {
		args string
		want int
	}{
		{"", 6}, {"--session s1", 3}, {"--session s", 6}, {"--session x", 0}, {"--tool Bash", 6}, {"--tool bash", 0}, {"--code code_2", 1},
		{"--verdict pass", 0}, {"--verdict deny", 6}, {"--event verdict", 6}, {"--event lease", 0}, {"--since 1h", 6}, {"--since 1ns", 0},
		{"-n 2", 2}, {"--lines 99", 6}, {"-n 2 --session s1", 2}, {"-n 4 --session s1", 3}, {"-n 1 --code code_0", 1}, {"-n 1 --code x", 0},
	} {
		for _, form := range []string{"", " --json"} {
			t.Run(tc.args+form, func(t *testing.T) {
				got := h.guard("", append([]string{"log"}, strings.Fields(tc.args+form)...)...)
				if n := strings.Count(got.out, "\n"); got.code != ExitDone || (got.stderr == "guard: no records match\n") != (n == 0) || n != tc.want {
					t.Errorf("exit %d, %d lines, stderr %q; want %d lines", got.code, n, got.stderr, tc.want)
				}
			})
		}
	}
}

func TestFollow(t *testing.T) {
	h := newHome(t)
	record(t, h, 2)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var seen []uint64
	err := follow(ctx, h.paths.AuditDir, func(r audit.Record, _ []byte) error {
		seen = append(seen, r.Seq)
		switch r.Seq {
		case 2:
			record(t, h, 1) // added while it is being followed
		case 3:
			cancel() // as Ctrl-C does
		}
		return nil
	})
	if err != nil || len(seen) != 3 {
		t.Errorf("followed %v, %v", seen, err)
	}
	ctx, cancel = context.WithCancel(context.Background())
	cancel()
	if err := follow(ctx, h.paths.RunDir, nil); err != nil {
		t.Errorf("following a directory that isn't there yet: %v", err)
	}
}

func TestLogWithoutRecords(t *testing.T) {
	h := newHome(t)
	if got := h.guard("", "log"); got.code != ExitDone || got.out != "" || !strings.Contains(got.stderr, "no records yet") {
		t.Errorf("%+v", got)
	}
}

// Records of a machine have readers of their own, operators or not.
func TestAuditClosed(t *testing.T) {
	denied := fmt.Errorf("opening %q: %w", "/x", fs.ErrPermission)
	if err := auditClosed(paths.Paths{Mode: paths.System}, denied); !strings.Contains(err.Error(), "usermod -aG guard-audit USER") {
		t.Errorf("in system mode: %v", err)
	}
	if err := auditClosed(paths.Paths{Mode: paths.User}, denied); !errors.Is(err, denied) || err.Error() != denied.Error() {
		t.Errorf("in user mode: %v", err)
	}
}

func TestNotOperatorWithoutBroker(t *testing.T) {
	h := newHome(t)
	h.env = append(h.env, "GUARD_SESSION=s1")
	for _, line := range []string{"log", "audit verify", "init"} {
		if got := h.guard("", strings.Fields(line)...); got.code != ExitRefused || !strings.HasPrefix(got.stderr, "guard: not_operator: ") {
			t.Errorf("guard %s inside a session: %+v", line, got)
		}
	}
}

func TestNewDay(t *testing.T) {
	day := dayOf(noon)
	var got []string
	for _, hours := range []time.Duration{0, 1, 13, 14, 40, 0} {
		got = append(got, (Command{}).newDay(&day, noon.Add(hours*time.Hour)))
	}
	zone, _ := noon.Zone()
	want := []string{"", "", "-- Saturday 2026-01-03 (" + zone + ")\n", "", "-- Sunday 2026-01-04 (" + zone + ")\n", "-- Friday 2026-01-02 (" + zone + ")\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A filter that nothing can match is a slip of the fingers.
func TestLogRefusesImpossibleFilters(t *testing.T) {
	h := newHome(t)
	for line, want := range map[string]string{
		"--verdict maybe": "want pass, ask or deny", "--event leases": "want verdict, host, lease, session, alarm or broker",
		"--event lease --verdict deny": "only a verdict's record", "--since -1h": "want a time above 0", "--since 10": "with a unit, as in 10s",
	} {
		got := h.guard("", append([]string{"log"}, strings.Fields(line)...)...)
		if got.code != ExitUsage || !strings.Contains(got.stderr, want) {
			t.Errorf("guard log %s: %+v; want %q", line, got, want)
		}
	}
}
