//go:build failpoint

package audit

import (
	"bufio"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// Killed or failed at each step, the chain goes on and has all that was
// acknowledged.
func TestCrashAtEachPoint(t *testing.T) {
	for _, point := range []string{"before-write", "before-sync", "after-sync", "before-rotate", "after-rotate", "before-prune", "before-head"} {
		for _, what := range []string{"kill@1", "kill@3", "error@2"} {
			t.Run(point+" "+what, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "audit")
				out, err := command("append", dir, fmt.Sprintf("GUARD_FAILPOINT=audit/%s:%s", point, what)).Output()
				if killed := err != nil && err.Error() == "signal: killed"; killed != strings.HasPrefix(what, "kill") {
					t.Fatalf("child ended with %v", err)
				}
				last, rest := lastHead(bufio.NewScanner(strings.NewReader(string(out))), 1000)
				if what == "error@2" && rest != "failed sticky=true" && point != "before-head" {
					t.Errorf("child said %q at its end", rest)
				}
				assertKept(t, dir, last)
			})
		}
	}
}
