//go:build faults

package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/testproc"
)

// ahead is by how much CLOCK_BOOTTIME is ahead in the time namespaces.
const ahead = 30 * 24 * time.Hour

func bootTime(t *testing.T) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// TestC1_TimeNamespace: the broker runs where CLOCK_BOOTTIME says something else
// than for its sessions. It knows the anchors and callers all the same, whose
// start times it is told by its own clock, and the lease ends by that clock: not
// sooner and not later than it was given.
func TestC1_TimeNamespace(t *testing.T) {
	needsRoot(t)
	w := prepare(t)
	w.under(fmt.Sprintf("exec unshare -T --boottime %d", int(ahead/time.Second)))
	w.start()
	own, err := os.Readlink("/proc/self/ns/time")
	w.Must(err)
	its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/time", w.BrokerPID()))
	w.Must(err)
	if own == its {
		testproc.Lacks(w.T, "this kernel changes the time namespace at fork alone (before Linux 6.2)")
	}
	// Anchors that only sleep come and go beside the session that is asked about.
	for range 5 {
		a, err := w.Launch(w.Ctx(), nil, os.Args[0])
		w.Must(err)
		defer a.End()
	}
	const ttl = 2 * time.Second
	began := bootTime(t)
	w.approve("--ttl", "2s")
	granted := bootTime(t)
	for {
		asked := bootTime(t)
		a, err := w.agent.Call(w.Ctx(), "Write", `{}`)
		w.Must(err)
		answered := bootTime(t)
		verdict, reason := a.Read()
		if verdict == "pass" {
			if asked > granted+ttl {
				t.Fatalf("a call passed %s after the lease was granted for %s", asked-granted, ttl)
			}
			continue
		}
		if !strings.HasPrefix(reason, "guard: lease_expired: ") || answered < began+ttl {
			t.Fatalf("denied after %s: %s", answered-began, reason)
		}
		break
	}
	w.Must(audit.Read(w.Paths.AuditDir, func(r audit.Record, _ []byte) error {
		if lead := time.Duration(r.BootNS) - bootTime(t); lead < ahead-time.Hour || lead > ahead {
			t.Fatalf("a record's boot time is %s ahead, want %s: the broker reads another clock", lead, ahead)
		}
		return nil
	}))
	// A restart finds every anchor again, by inode and start time.
	w.stop()
	w.Must(w.StartBroker(w.Ctx()))
	if st := w.status(); len(st.Sessions) != 6 {
		t.Errorf("%d of 6 sessions are back", len(st.Sessions))
	}
	w.expect("Write", "deny", "lease_unverified")
}

// TestStartTimesInTimeNamespace: all that internal/peer proves, also by start
// times alone, holds where CLOCK_BOOTTIME is ahead of the kernel's.
func TestStartTimesInTimeNamespace(t *testing.T) {
	needsRoot(t)
	binary := filepath.Join(t.TempDir(), "peer.test")
	build := exec.Command("go", "test", "-c", "-o", binary, "./internal/peer")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command("unshare", "-T", "--boottime", fmt.Sprint(int(ahead/time.Second)), "--fork", binary, "-test.timeout=60s")
	cmd.Dir = "../../internal/peer"
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("%v\n%.4000s", err, out)
	}
}
