//go:build failpoint

package store

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

var points = []string{"store/before-begin", "store/before-commit", "store/after-commit", "store/before-reply"}

// Killed at each step of the n-th commit, a token is never usable twice, and
// what was acknowledged stays consumed.
func TestV1_KilledAtEachPoint(t *testing.T) {
	for _, point := range points {
		for n := 1; n <= 8; n++ {
			t.Run(fmt.Sprintf("%s@%d", point, n), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "guard.db")
				c := startChild(t, "consume", path, fmt.Sprintf("GUARD_FAILPOINT=%s:kill@%d", point, n))
				minted, consumed := said(c.out, 1000)
				if err := c.cmd.Wait(); err == nil || err.Error() != "signal: killed" {
					t.Fatalf("child ended with %v, want to be killed", err)
				}
				if len(minted)+len(consumed) != n-1 {
					t.Errorf("killed at commit %d after %d acknowledged", n, len(minted)+len(consumed))
				}
				assertOnce(t, path, minted, consumed)
			})
		}
	}
}

// A commit that fails or panics refuses, and the store stays failed.
func TestB3_FailedCommitStays(t *testing.T) {
	for _, point := range points[:3] {
		for _, action := range []string{"error", "panic"} {
			t.Run(point+" "+action, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "guard.db")
				s := reopen(t, path)
				put(t, s, testToken(1))
				closeStore(t, s)
				cmd := command("once", path, "GUARD_FAILPOINT="+point+":"+action+"@1")
				out, err := cmd.Output()
				if err != nil {
					t.Fatal(err)
				}
				if got, want := strings.TrimSpace(string(out)), "use=false sticky=true again=false closed=true"; got != want {
					t.Errorf("child said %q, want %q", got, want)
				}
				assertOnce(t, path, map[byte]bool{1: true}, nil)
			})
		}
	}
}
