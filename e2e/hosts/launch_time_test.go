//go:build hosts

package hosts

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"leaseguard.internal/internal/fakemodel"
)

// Each way to start is measured at least and at most so often.
const minStarts, maxStarts = 3, 10

// cost is what a run of one denied call took: until its model was asked, until
// its end, and of processors.
type cost struct{ first, whole, cpu time.Duration }

func (c cost) least(d cost) cost {
	if c == (cost{}) {
		return d
	}
	return cost{min(c.first, d.first), min(c.whole, d.whole), min(c.cpu, d.cpu)}
}

// runCost measures one run. Of a launch, the processors' time is that of the
// proof too, whose processes the launcher has waited for.
func runCost(t *testing.T, g *guarded, program string, args ...string) cost {
	t.Helper()
	var asked time.Time
	g.script(fakemodel.Script{Steps: []fakemodel.Step{
		func(ctx context.Context, r *fakemodel.Request) (fakemodel.Turn, error) {
			asked = time.Now()
			return fakemodel.Use("Bash", `{"command":"true"}`)(ctx, r)
		},
	}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = g.Project, g.environ()
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v: %s", program, args, err, out)
	}
	return cost{asked.Sub(began), time.Since(began), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
}

// busy says whether the machine has more to run than processors.
func busy(t *testing.T) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/loadavg")
	must(t, err)
	load, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	must(t, err)
	return load > float64(runtime.NumCPU())
}

// TestLaunchStartup measures what guard adds to a start, beside direct starts in
// the same run. The least of several rounds is compared, since all else of a
// busy machine only adds. On one that stays busy, where two starts wait for
// others more often than one does, the time of processors is compared instead.
func TestLaunchStartup(t *testing.T) {
	g := newGuarded(t, "")
	guard := filepath.Join(g.bin, "guard")
	cachedArgs, newArgs := []string{"launch", "claude", "--", "-p", "go"}, []string{"launch", "claude", "--no-cache", "--", "-p", "go"}
	runCost(t, g, guard, cachedArgs...) // starts the broker, and makes the proof
	var direct, cached, proved cost
	good := false
	for round := 0; round < minStarts || !good && round < maxStarts; round++ {
		direct = direct.least(runCost(t, g, claude, "-p", "go"))
		cached = cached.least(runCost(t, g, guard, cachedArgs...))
		proved = proved.least(runCost(t, g, guard, newArgs...))
		good = cached.first <= direct.first+margin && proved.first <= direct.first+direct.whole+margin
		if !good && round >= minStarts && busy(t) {
			good = cached.cpu <= direct.cpu+margin && proved.cpu <= 2*direct.cpu+margin
		}
	}
	t.Logf("direct %+v, with a proof of the day %+v, with a new one %+v", direct, cached, proved)
	if !good {
		t.Errorf("a proof of the day may add %v, a new one a turn and %v", margin, margin)
	}
}
