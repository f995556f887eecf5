//go:build kills

package kills

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/sandbox/sandboxtest"
)

// points are the commit points of a promotion and of the pass under it, with the
// visits at which the broker is killed there: some are met at its start too.
var points = map[string][]int{
	"broker/begun": {1}, "broker/token-stored": {1}, "broker/promoting": {1}, "broker/consumed": {1}, "broker/recorded": {1},
	"broker/before-verified": {1}, "broker/verified": {1},
	"store/before-begin": {6, 9}, "store/before-commit": {6, 9}, "store/after-commit": {6, 9}, "store/before-reply": {6, 9},
	"audit/before-write": {6, 9}, "audit/before-sync": {6, 9}, "audit/after-sync": {6, 9},
}

// TestKilledAtEachPoint kills the broker exactly there, 20 times each.
func TestKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	for point, visits := range points {
		t.Run(strings.ReplaceAll(point, "/", " "), func(t *testing.T) {
			t.Parallel()
			w := start(t, 1)
			for n := range sandboxtest.Size(20, 200) {
				w.KillBroker()
				w.killedAt(fmt.Sprintf("%s:kill@%d", point, visits[n%len(visits)]))
				if t.Failed() {
					return
				}
			}
		})
	}
}

func (w *world) killedAt(spec string) {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := w.StartBroker(ctx, "GUARD_FAILPOINT="+spec); err != nil {
		w.T.Fatalf("%s: it didn't get as far as that: %v", spec, err)
	}
	l := newLedger(w)
	for range 3 {
		if id := w.ids[0]; !l.raise(id) || !l.change(id) {
			break
		}
	}
	if up, _ := client.Running(w.Ctx(), w.Paths); up && strings.HasPrefix(spec, "broker/") {
		w.T.Errorf("%s: the broker lives", spec)
	}
	w.KillBroker() // if it lives
	w.Must(w.StartBroker(w.Ctx()))
	l.judge()
}
