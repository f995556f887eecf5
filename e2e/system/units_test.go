//go:build system

package system

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"leaseguard.internal/packaging"
)

// maxExposure is the most that systemd-analyze may count against the broker.
// What is left of it: the network for the ZVM, CAP_KILL, and a /proc with other
// users' processes, which lineage needs.
const maxExposure = 2.0

var exposure = regexp.MustCompile(`(?m)Overall exposure level for \S+: (\d+\.\d) `)

func TestUnitsExposure(t *testing.T) {
	out := run(t, "systemd-analyze", "security", "--offline=true", "--no-pager", filepath.Join("..", "..", "packaging", "systemd", packaging.BrokerService))
	m := exposure.FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("no exposure in:\n%s", out)
	}
	got, err := strconv.ParseFloat(m[1], 64)
	if err != nil || got > maxExposure || got <= 0 {
		t.Errorf("exposure %v, %v; want at most %v\n%s", got, err, maxExposure, out)
	}
	t.Logf("exposure %v", got)
}

// systemd itself reads the units: an unknown key or a value that it drops is a
// line of its output.
func TestUnitsAreUnderstood(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/bin/true", filepath.Join(bin, "guard-broker")); err != nil {
		t.Fatal(err)
	}
	args := []string{"verify", "--man=no"}
	for _, name := range packaging.Units() {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, packaging.Unit(name, bin), 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	if out := strings.TrimSpace(run(t, "systemd-analyze", args...)); out != "" {
		t.Errorf("systemd-analyze verify says:\n%s", out)
	}
}

// What the broker relies on, key by key: a unit without one of these would still
// start, and score well.
func TestUnitsHoldTheirPromises(t *testing.T) {
	for _, tc := range []struct{ unit, key, value, why string }{
		{packaging.BrokerService, "User", "guard", "its own user"},
		{packaging.BrokerService, "CapabilityBoundingSet", "CAP_KILL", "nothing else of root's"},
		{packaging.BrokerService, "AmbientCapabilities", "CAP_KILL", "signals to other users' processes"},
		{packaging.BrokerService, "Type", "notify", "ready only after listen and self-test"},
		{packaging.BrokerService, "NotifyAccess", "main", "nobody else says that it is ready or alive"},
		{packaging.BrokerService, "Restart", "always", "a broker that ended comes back, without authority"},
		{packaging.BrokerService, "LoadCredential", "zvm:/etc/guard/zvm.secret", "the secret stays root's"},
		{packaging.BrokerService, "LimitCORE", "0", "no secret in a core file"},
		{packaging.BrokerService, "TimeoutStopSec", "10s", "it has 5 s, and is then ended"},
		{packaging.BrokerSocket, "SocketMode", "0666", "everybody may ask"},
		{packaging.BrokerSocket, "ListenStream", "/run/guard/broker.sock", "the path that paths.Resolve gives"},
		{packaging.OperatorSocket, "SocketMode", "0660", "only operators may connect"},
		{packaging.OperatorSocket, "SocketGroup", "guard-operators", "only operators may connect"},
		{packaging.OperatorSocket, "ListenStream", "/run/guard/operator.sock", "the path that paths.Resolve gives"},
	} {
		if got := values(tc.unit, tc.key); len(got) != 1 || got[0] != tc.value {
			t.Errorf("%s has %s=%q, want %q: %s", tc.unit, tc.key, got, tc.value, tc.why)
		}
	}
	for _, unit := range packaging.Units() {
		if got := values(unit, "ConditionPathExists"); len(got) != 1 || got[0] != "/etc/guard/guard.toml" {
			t.Errorf("%s starts without the file that switches system mode on", unit)
		}
	}
	for _, key := range []string{"ProtectProc", "ProcSubset", "PrivateUsers"} {
		if got := values(packaging.BrokerService, key); got != nil {
			t.Errorf("%s=%q: the broker must see other users' processes and uids", key, got)
		}
	}
}

// values are what a unit gives a key, line by line.
func values(unit, key string) (found []string) {
	for line := range strings.Lines(string(packaging.Unit(unit, "/usr/bin"))) {
		if v, ok := strings.CutPrefix(line, key+"="); ok {
			found = append(found, strings.TrimSpace(v))
		}
	}
	return found
}
