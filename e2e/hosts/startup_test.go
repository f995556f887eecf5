//go:build hosts

package hosts

import (
	"context"
	"flag"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"leaseguard.internal/internal/fakemodel"
)

// startup is set by "make bench-launch".
var startup = flag.Int("startup", 0, "rounds of the measurement of a launch's start-up")

// margin is what a launch may add to a start.
const margin = 150 * time.Millisecond

// timed is one unattended run of one turn: how long until its model was asked,
// and until its end.
type timed struct{ asked, ended time.Duration }

// TestStartUp runs the client by itself, under guard with a proof that is kept,
// and with one that is made, in turn, so that load of the machine meets all
// alike. What counts are the medians of the differences within a round.
func TestStartUp(t *testing.T) {
	rounds := *startup
	if rounds == 0 {
		t.Skip("it takes a minute, and TestLaunchStartup holds the targets: make bench-launch")
	}
	g := newGuarded(t, "")
	var asked time.Time
	g.steps(slices.Repeat([]fakemodel.Step{func(context.Context, *fakemodel.Request) (fakemodel.Turn, error) {
		asked = time.Now()
		return fakemodel.Turn{Text: "done"}, nil
	}}, 3*(rounds+1))...)
	g.write(filepath.Join(g.Home, ".claude/settings.json"), object{"theme": "dark"}) // which the client would write there
	turn := func(run func() outcome) timed {
		start := time.Now()
		g.ok(run())
		return timed{asked.Sub(start), time.Since(start)}
	}
	client := []string{"-p", "go"}
	var kinds [3][]timed
	for i := range rounds + 1 {
		for k, run := range []func() outcome{
			func() outcome { return g.direct().runAs(client...) },
			func() outcome { return g.launchAs(append([]string{"--no-cache", "--"}, client...)...) },
			func() outcome { return g.launchAs(append([]string{"--"}, client...)...) },
		} {
			if took := turn(run); i > 0 { // the first loads programs and starts the broker
				kinds[k] = append(kinds[k], took)
			}
		}
	}
	proofs := 0
	for _, r := range g.audit() {
		if r.Code == "proved" {
			proofs++
		}
	}
	if proofs != rounds+1 {
		t.Errorf("%d proofs in %d launches with one and as many without", proofs, rounds+1)
	}
	direct, proved, cached := kinds[0], kinds[1], kinds[2]
	start := func(x timed) time.Duration { return x.asked }
	own := median(direct, nil, func(x timed) time.Duration { return x.ended })
	kept, made := median(cached, direct, start), median(proved, direct, start)
	t.Logf("medians of %d rounds, until the model is asked: direct %v, under guard %v with a kept proof (+%v), %v with a new one (+%v); the client's own run of one turn takes %v",
		rounds, median(direct, nil, start), median(cached, nil, start), kept, median(proved, nil, start), made, own)
	if kept > margin || made > own+margin {
		t.Errorf("guard adds %v with a kept proof, want at most %v; %v with a new one, want at most %v", kept, margin, made, own+margin)
	}
}

// median of what is measured, or of its differences to the base of each round.
func median(all, base []timed, of func(timed) time.Duration) time.Duration {
	var list []time.Duration
	for i, x := range all {
		d := of(x)
		if base != nil {
			d -= of(base[i])
		}
		list = append(list, d)
	}
	slices.Sort(list)
	return list[len(list)/2].Round(time.Millisecond)
}
