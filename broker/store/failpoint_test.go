//go:build failpoint

package store

import (
	"bytes"
	"fmt"
	"os"
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

// Killed or failed while a damaged store is set aside, nothing of it is lost, and
// the next start goes on: the file is under its own name or under the other, once.
func TestCrashWhileSettingAside(t *testing.T) {
	for _, point := range []string{"store/before-aside", "store/after-aside"} {
		for _, action := range []string{"kill", "error", "panic"} {
			t.Run(point+" "+action, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "guard.db")
				damaged := []byte(strings.Repeat("no pages ", 4000))
				if err := os.WriteFile(path, damaged, 0o600); err != nil {
					t.Fatal(err)
				}
				if out, err := command("aside", path, "GUARD_FAILPOINT="+point+":"+action).CombinedOutput(); err == nil {
					t.Fatalf("the child went through: %s", out)
				}
				s, _, err := OpenOrSetAside(path, testWall)
				if err != nil {
					t.Fatal(err)
				}
				put(t, s, testToken(1))
				closeStore(t, s)
				asides, err := Asides(path)
				if err != nil || len(asides) != 1 {
					t.Fatalf("set aside: %q, %v; want one", asides, err)
				}
				if kept, err := os.ReadFile(asides[0]); err != nil || !bytes.Equal(kept, damaged) {
					t.Errorf("%d bytes were kept, %v", len(kept), err)
				}
			})
		}
	}
}
