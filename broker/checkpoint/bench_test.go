package checkpoint

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/zvmsim"
)

// BenchmarkAddedLatency prints what guard adds to the ZVM's own time on the way
// to a confirmed checkpoint: the whole call, less the simulator's time from the
// arrival of the insert to the visible tag, less its delay of the read that
// showed it. The requests that have to come before the insert have no delay
// here, so all that they cost is counted. The promise is 150 ms at p95; run it
// with -benchtime 200x.
func BenchmarkAddedLatency(b *testing.B) {
	const workers = 8
	estate := &zvmsim.Estate{}
	for i := range workers {
		vpg := "V" + strconv.Itoa(i)
		estate.VPGs = append(estate.VPGs, zvmsim.VPG{Name: vpg})
		estate.VMs = append(estate.VMs, zvmsim.VM{Name: "vm-" + strconv.Itoa(i), VPGs: []string{vpg}})
	}
	r := rigged(b, setUp{preset: "default", estate: estate, change: func(b *zvmsim.Behaviour) {
		for _, op := range []string{zvmsim.OpToken, zvmsim.OpVMs, zvmsim.OpVPGs, zvmsim.OpSites} {
			delete(b.Latency, op)
		}
	}})
	r.pace = defaultPace
	took := measure(b, r, workers)
	var added []time.Duration
	for _, timing := range r.sim.Timings() {
		added = append(added, took[timing.Tag]-time.Duration(timing.Visible)-time.Duration(timing.ReadDelay))
	}
	slices.Sort(added)
	report := func(name string, share int) {
		b.ReportMetric(float64(added[len(added)*share/100].Microseconds())/1000, name)
	}
	b.ReportMetric(0, "ns/op")
	report("p50-added-ms", 50)
	report("p95-added-ms", 95)
	b.ReportMetric(float64(added[len(added)-1].Microseconds())/1000, "max-added-ms")
}

// measure makes b.N calls, a worker's one after the other, and returns how long
// each took by its tag.
func measure(b *testing.B, r *rig, workers int) map[string]time.Duration {
	b.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	took := map[string]time.Duration{}
	for w := range workers {
		wg.Go(func() {
			for i := w; i < b.N; i += workers {
				from := clock.System{}.Now()
				infos, err := r.Ensure(b.Context(), ask("s1", "vm-"+strconv.Itoa(w)))
				if err != nil {
					b.Error(err)
					return
				}
				mu.Lock()
				took[infos[0].Tag] = clock.System{}.Now().Sub(from)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return took
}

// BenchmarkRefusalAWS prints how long a refusal for a machine at an AWS site
// takes against the simulator's slow variant, from a cold client: no token, no
// connection, nothing cached. The promise is 1 s.
func BenchmarkRefusalAWS(b *testing.B) {
	var most time.Duration
	for range b.N {
		r := rigged(b, setUp{preset: "slow"})
		from := clock.System{}.Now()
		_, err := r.Ensure(b.Context(), ask("s1", "win-aws-01"))
		most = max(most, clock.System{}.Now().Sub(from))
		if refusal, ok := err.(*Refusal); !ok || refusal.Code != verdict.CheckpointUnsupported { //nolint:errorlint // Ensure's own type
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(most.Milliseconds()), "max-ms")
}
