//go:build hosts

package hosts

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"leaseguard.internal/internal/fakemodel"
)

// TestCodexLeftRunning: what a passed command left running goes on when the lease
// has ended, unless the operator has it ended then.
func TestCodexLeftRunning(t *testing.T) {
	t.Parallel()
	codexHole("left_running", "a command that a pass has started goes on when the lease has ended", "compensated",
		`session.on_revoke = "kill_tools": it is ended with the lease`).report(t)
	for _, kills := range []bool{false, true} {
		config := "[checkpoint]\nself = \"none\"\n"
		if kills {
			config += "[session]\non_revoke = \"kill_tools\"\n"
		}
		g := newCodex(t, config)
		word := filepath.Join(g.Dir, "go")
		runs := func() bool {
			all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			return slices.ContainsFunc(all, func(path string) bool {
				text, err := os.ReadFile(path)
				return err == nil && bytes.Contains(text, []byte("touch "+g.Marker)) && bytes.Contains(text, []byte("until"))
			})
		}
		g.codexSteps("",
			between(g.approve, fakemodel.Use("exec_command", string(toJSON(t, object{
				"cmd": "until [ -e " + word + " ]; do sleep 0.1; done; touch " + g.Marker, "yield_time_ms": 300,
			})))),
			between(func() {
				if !runs() {
					t.Error("the command doesn't run")
				}
				g.revoke()
				if kills {
					g.await("the end of the command", func() bool { return !runs() })
				}
				g.write(word, "")
				if !kills {
					g.await("what the command does", g.marked)
				}
			}, fakemodel.Say("done")))
		g.ok(g.launchCodex())
		if g.marked() == kills {
			t.Errorf("kill_tools %v: marked %v", kills, g.marked())
		}
	}
}
