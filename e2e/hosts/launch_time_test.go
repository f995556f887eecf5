//go:build hosts

package hosts

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"leaseguard.internal/internal/fakemodel"
)

// startRounds is how often each way to start is measured.
const startRounds = 7

// startTimes gives two times: first is the time from the start of a program to its client's first
// question to the model; whole is that of a run with one denied call.
func startTimes(t *testing.T, program string, g *guarded, args ...string) (first, whole time.Duration) {
	t.Helper()
	var asked time.Time
	g.script(fakemodel.Script{Steps: []fakemodel.Step{
		func(_ context.Context, r *fakemodel.Request) (fakemodel.Turn, error) {
			asked = time.Now()
			return fakemodel.Use("Bash", `{"command":"true"}`)(context.Background(), r)
		},
	}})
	w := g.direct()
	w.Client = program
	began := time.Now()
	w.ok(w.runAs(args...))
	return asked.Sub(began), time.Since(began)
}

// TestLaunchStartup measures what guard adds to a start, beside a direct start
// in the same run. The least of several rounds is compared, since all else of a
// busy machine only adds.
func TestLaunchStartup(t *testing.T) {
	const margin = 150 * time.Millisecond
	g := newGuarded(t, "")
	guard := filepath.Join(g.bin, "guard")
	ask := []string{"-p", "go"}
	cached := append([]string{"launch", "claude", "--"}, ask...)
	uncached := append([]string{"launch", "claude", "--no-cache", "--"}, ask...)
	least := map[string]time.Duration{}
	note := func(name string, d time.Duration) {
		if have, ok := least[name]; !ok || d < have {
			least[name] = d
		}
	}
	startTimes(t, guard, g, cached...) // starts the broker, and makes the proof
	for range startRounds {
		first, whole := startTimes(t, claude, g, ask...)
		note("direct", first)
		note("turn", whole)
		first, _ = startTimes(t, guard, g, cached...)
		note("cached", first)
		first, _ = startTimes(t, guard, g, uncached...)
		note("uncached", first)
	}
	t.Logf("to the first request: directly %v, with a proof of the day %v, with a new one %v; a direct run of one turn takes %v",
		least["direct"], least["cached"], least["uncached"], least["turn"])
	if added := least["cached"] - least["direct"]; added > margin {
		t.Errorf("with a proof of the day guard adds %v, want at most %v", added, margin)
	}
	if added, want := least["uncached"]-least["direct"], least["turn"]+margin; added > want {
		t.Errorf("with a new proof guard adds %v, want at most a turn and %v, which is %v", added, margin, want)
	}
}
