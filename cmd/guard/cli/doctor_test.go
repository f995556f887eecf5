package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/holes"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/wire"
	"leaseguard.internal/launcher"
)

// statesOf are findings as "area state", and whether each that isn't ok has a fix.
func statesOf(t *testing.T, d *doctor) (lines []string) {
	t.Helper()
	for _, f := range d.out.Checks {
		if (f.Fix == "") != (f.State == stateOK) {
			t.Errorf("%+v: what is wrong has a remedy, and nothing else has", f)
		}
		lines = append(lines, f.Area+" "+f.State)
	}
	return lines
}

func newDoctor(t *testing.T) *doctor {
	return &doctor{ctx: t.Context(), paths: paths.Paths{Mode: paths.User, Config: "/c/guard.toml", BrokerUID: uid()}}
}

// TestFreeSudo: sudo is asked once, without a terminal, and not for ever.
func TestFreeSudo(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	free := script("free", `[ "$*" = "-n true" ] && [ -z "$HOME$GUARD_SESSION" ] && ! (: </dev/tty) 2>/dev/null`)
	asks := script("asks", `echo a password is required >&2; exit 1`)
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, []byte("#!/nowhere\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		places []string
		free   bool
		bad    bool
	}{
		{"without a password", []string{free}, true, false},
		{"with one", []string{asks}, false, false},
		{"none", []string{filepath.Join(dir, "none")}, false, false},
		{"the first that is there", []string{filepath.Join(dir, "none"), free, asks}, true, false},
		{"can't be started", []string{broken}, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := freeSudo(t.Context(), tt.places)
			if got != tt.free || (err != nil) != tt.bad {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := freeSudo(ctx, []string{free}); err == nil {
		t.Error("an answer although nobody waited")
	}
}

// TestZombies counts them by their parent.
func TestZombies(t *testing.T) {
	dir := t.TempDir()
	for name, stat := range map[string]string{
		"10": "10 (a) Z 7", "11": "11 (b) Z) Z 7", "12": "12 (c) S 7", "13": "13 (d) Z 8", "self": "14 (e) Z 7", "15": "15 Z 7",
	} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "stat"), []byte(stat+strings.Repeat(" 0", 30)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(map[int]int{7: 2, 8: 1}, zombiesOf(dir)); diff != "" {
		t.Error(diff)
	}
	if got := zombiesOf(filepath.Join(dir, "none")); len(got) != 0 {
		t.Errorf("%v where nothing is", got)
	}
}

func TestDoctorSessions(t *testing.T) {
	good := wire.Session{ID: "3f9a1c7788990011", Runtime: "claude", State: "UNVERIFIED", AnchorPID: 7, Launched: true, GateSeen: true, Enforced: true}
	tests := []struct {
		name    string
		change  func(*wire.Session)
		zombies int
		want    string
	}{
		{"all well", func(*wire.Session) {}, maxZombies, "sessions ok"},
		{"an alarm", func(s *wire.Session) { s.Alarm = "ungated_call" }, 0, "sessions fail"},
		{"root's", func(s *wire.Session) { s.Enforced = false }, 0, "sessions warn"},
		{"unseen", func(s *wire.Session) { s.GateSeen = false }, 0, "sessions warn"},
		{"not launched yet", func(s *wire.Session) { s.GateSeen, s.Launched = false, false }, 0, "sessions ok"},
		{"zombies", func(*wire.Session) {}, maxZombies + 1, "sessions warn"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, s := newDoctor(t), good
			tt.change(&s)
			d.session("3f9a", s, tt.zombies)
			if got := strings.Join(statesOf(t, d), ", "); got != tt.want {
				t.Errorf("%s, want %s: %+v", got, tt.want, d.out.Checks)
			}
		})
	}
}

func TestDoctorAssurance(t *testing.T) {
	tests := []struct {
		name   string
		change func(*wire.BrokerStatus)
		want   []string
	}{
		{"a store that failed", func(b *wire.BrokerStatus) { b.StoreError = "no space" }, []string{"broker fail"}},
		{"an audit that doesn't fit", func(b *wire.BrokerStatus) { b.AuditFault = "cut" }, []string{"audit fail"}},
		{"a store set aside", func(b *wire.BrokerStatus) { b.StoreAsides = []string{"/x"} }, []string{"broker warn"}},
		{"another version", func(b *wire.BrokerStatus) { b.Version = "0.0.1" }, []string{"broker warn"}},
		{"an older kernel", func(b *wire.BrokerStatus) { b.Assurance.Identity = "pidfd" }, []string{"identity warn"}},
		{"cooperative", func(b *wire.BrokerStatus) { b.Assurance.Operator = "cooperative" }, []string{"operator warn"}},
		{"a level of operators that nobody knows", func(b *wire.BrokerStatus) { b.Assurance.Operator = "?" }, []string{"operator fail"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDoctor(t)
			b := wire.BrokerStatus{Version: "x", Mode: paths.User, Assurance: wire.Assurance{Identity: "pidfs", Operator: "passphrase", Cgroup: "absent"}}
			tt.change(&b)
			d.status = &wire.Status{Broker: b}
			d.assurance()
			all := statesOf(t, d)
			for _, want := range tt.want {
				if !strings.Contains(strings.Join(all, ","), want) {
					t.Errorf("%q lacks %q", all, want)
				}
			}
		})
	}
}

func TestDoctorZVM(t *testing.T) {
	fault := &wire.Fault{Code: "checkpoint_failed", Object: "VM", Cause: "why", Next: "what helps"}
	late := &wire.Fault{Code: "checkpoint_timeout", Object: "VM", Cause: "slow", Next: "wait"}
	tests := []struct {
		name string
		zvm  wire.ZVM
		want []string
	}{
		{"none", wire.ZVM{}, nil},
		{"refuses", wire.ZVM{URL: "https://z", Fault: fault}, []string{"zvm fail"}},
		{"too slow", wire.ZVM{URL: "https://z", Fault: late}, []string{"zvm unknown"}},
		{"clocks apart", wire.ZVM{URL: "https://z", SkewMS: -61_000}, []string{"zvm warn"}},
		{"clocks nearly the same", wire.ZVM{URL: "https://z", SkewMS: 59_000}, []string{"zvm ok"}},
		{"machines", wire.ZVM{URL: "https://z", Machines: []wire.Machine{
			{Name: "a", VPGs: []string{"V"}}, {Name: "b", VPGs: []string{"V", "W"}}, {Name: "c", Fault: fault}, {Name: "d", Fault: late},
		}}, []string{"zvm ok", "machines ok", "machines warn", "machines fail", "machines unknown"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDoctor(t)
			d.judgeZVM(tt.zvm)
			if diff := cmp.Diff(tt.want, statesOf(t, d)); diff != "" {
				t.Error(diff)
			}
		})
	}
	for skew, want := range map[time.Duration]string{0: "that of", 400 * time.Millisecond: "that of", 90 * time.Second: "1m30s ahead of", -2 * time.Second: "2s behind"} {
		if got := apart(skew); got != want {
			t.Errorf("%v: %q, want %q", skew, got, want)
		}
	}
}

func TestDoctorConfig(t *testing.T) {
	tests := []struct {
		name   string
		change func(*config.Config)
		want   []string
	}{
		{"nothing can pass", func(c *config.Config) { c.ZVM, c.Checkpoint.Self = nil, nil }, []string{"config fail"}},
		{"self isn't set", func(c *config.Config) { c.Checkpoint.Self = nil }, []string{"config fail"}},
		{"all well", func(*config.Config) {}, nil},
		{"unprotected", func(c *config.Config) { c.Checkpoint.Self, c.Checkpoint.SelfNone = nil, true }, []string{"config warn"}},
		{"everything unlisted", func(c *config.Config) { c.Checkpoint.Unlisted, c.Checkpoint.NoVM = "allow", "allow" }, []string{"config warn", "config warn"}},
		{"root", func(c *config.Config) { c.Identity.AllowRootSessions = true }, []string{"config warn"}},
		{"self-approval", func(c *config.Config) { c.Lease.Promotion = "self" }, []string{"config warn"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, cfg := newDoctor(t), config.Default()
			cfg.ZVM, cfg.Checkpoint.Self = &config.ZVM{URL: "https://z"}, []string{"app-01"}
			tt.change(cfg)
			d.judgeConfig(cfg)
			if diff := cmp.Diff(tt.want, statesOf(t, d)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDoctorSystemMode: the gate's group, its bit and the sockets' modes.
func TestDoctorSystemMode(t *testing.T) {
	dir := t.TempDir()
	gate := filepath.Join(dir, "guard-gate")
	if err := os.WriteFile(gate, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	d := newDoctor(t)
	d.paths.Mode, d.paths.GateGID = paths.System, uint32(os.Getgid())
	if d.gateGroup(gate) {
		t.Error("a gate without its bit is good")
	}
	if err := os.Chmod(gate, 0o755|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	if !d.gateGroup(gate) {
		t.Errorf("the gate with group and bit is bad: %+v", d.out.Checks)
	}
	d.paths.GateGID++
	if d.gateGroup(gate) || d.gateGroup(gate+"x") {
		t.Error("a gate of another group, or none, is good")
	}
	statesOf(t, d)
}

// TestDoctorHoles: each that stands is said with what bounds it, or with what to
// do; a client that nobody tried is no client without holes.
func TestDoctorHoles(t *testing.T) {
	rows := []holes.Row{
		{Version: "1.0", ID: "a", What: "x", State: holes.Closed, By: "the gate"},
		{Version: "1.0", ID: "b", What: "y", State: holes.Compensated, By: "kill_tools"},
		{Version: "1.0", ID: "c", What: "z", State: holes.Open, By: "watch it"},
		{Version: "1.0", ID: "d", What: "z", State: "", By: "nobody said"},
	}
	d := newDoctor(t)
	d.holes(launcher.Checked{Runtime: "pi", Version: "1.1"}, rows)
	if diff := cmp.Diff([]string{"pi ok", "pi warn", "pi warn", "pi ok"}, statesOf(t, d)); diff != "" {
		t.Error(diff)
	}
	if text := d.out.Checks[3].Text; text != "1 known way around the gate closed, as measured on version 1.0" {
		t.Error(text)
	}
	d = newDoctor(t)
	d.holes(launcher.Checked{Runtime: "pi", Version: "1.1"}, nil)
	if diff := cmp.Diff([]string{"pi warn"}, statesOf(t, d)); diff != "" {
		t.Error(diff)
	}
}

// TestDoctorLimits: what hooks don't close is said where it holds, in the words of
// README.md.
func TestDoctorLimits(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(readme), "`", "")
	for _, l := range limits {
		if !strings.Contains(text, "\n| "+l.What+" |") {
			t.Errorf("README.md has no row %q", l.What)
		}
	}
	shown := func(mode string, change func(*config.Config)) int {
		d := newDoctor(t)
		d.paths.Mode, d.config = mode, config.Default()
		change(d.config)
		d.boundary()
		return len(d.out.Limits)
	}
	plain := shown(paths.User, func(*config.Config) {})
	if root := shown(paths.User, func(c *config.Config) { c.Identity.AllowRootSessions, c.Lease.Promotion = true, "self" }); plain != 4 || root != 6 {
		t.Errorf("%d limits, and %d where root and self-approval are allowed", plain, root)
	}
}

// TestDoctorEndsWith: wrong beats unknown, and a warning ends well.
func TestDoctorEndsWith(t *testing.T) {
	tests := []struct {
		states string
		want   int
	}{{"", 0}, {"ok", 0}, {"ok warn", 0}, {"warn unknown", 3}, {"unknown fail", 1}}
	for _, tt := range tests {
		var found []finding
		for _, state := range strings.Fields(tt.states) {
			found = append(found, finding{State: state})
		}
		if got := (Command{Stderr: &bytes.Buffer{}}).report(nil, verdictOf(worst(found))); got != tt.want {
			t.Errorf("%q ends with %d, want %d", tt.states, got, tt.want)
		}
	}
}

// TestDoctorPrints: one line for each finding, the area once, no colour but on a
// terminal, and nothing of others' text that a terminal would act on.
func TestDoctorPrints(t *testing.T) {
	var out bytes.Buffer
	c := Command{Stdout: &out}
	c.printDiagnosis(&out, diagnosis{Checks: []finding{
		{"zvm", stateOK, "fine", ""}, {"machines", stateWarn, "a\x1b[31m", "do b"}, {"machines", stateFail, "c", "do d\n"},
	}})
	want := "zvm       ok    fine\nmachines  warn  a [31m\n                fix: do b\n          fail  c\n                fix: do d\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	for _, line := range wrapped(strings.Fields(strings.Repeat("NAME_OF_TWENTY_BYTES ", 50))) {
		if len(line) > 88 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
}
