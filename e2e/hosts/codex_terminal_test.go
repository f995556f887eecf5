//go:build hosts

package hosts

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestCodexInTerminal: in a terminal the client runs in the process that guard
// holds, not in a server beside it, and asks the gate.
func TestCodexInTerminal(t *testing.T) {
	t.Parallel()
	g := newCodex(t, "")
	g.codexSteps(trustsProject(g.world), g.mark())
	w := *g.world
	w.Client = filepath.Join(g.bin, "guard")
	x := w.interact("launch", "codex", "--", "--dangerously-bypass-approvals-and-sandbox", "--no-alt-screen")
	x.shown("Open restricted") // the client's question about a directory that isn't trusted
	x.press("\r", "the client's own screen", func() bool { return strings.Contains(x.screen(), "gpt-5.4") })
	x.enter("go")
	w.await("the result", func() bool { return len(g.results()) == 1 })
	g.denied()
	if s := g.session(); !s.GateSeen {
		t.Errorf("the host's own gate was not seen: %+v", s)
	}
}
