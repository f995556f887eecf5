//go:build kills

package kills

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/sandbox/sandboxtest"
)

// TestStoppedUnderLoad ends the broker by SIGTERM instead, in the middle of
// commits, with a SIGHUP on the way: it ends by itself within five seconds, and
// tells of its end and of all that it let pass.
func TestStoppedUnderLoad(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	w := start(t, 3)
	times := sandboxtest.Size(10, 100)
	for range times {
		l := newLedger(w)
		l.run(false, time.Duration(random.IntN(50))*time.Millisecond, w.stop)
		w.Must(w.StartBroker(w.Ctx()))
		l.judge()
		if t.Failed() {
			return
		}
	}
	stopped := 0
	w.Must(audit.Read(w.Paths.AuditDir, func(r audit.Record, _ []byte) error {
		if r.Event == audit.EventBroker && r.Code == "stopped" {
			stopped++
		}
		return nil
	}))
	if stopped != times {
		t.Errorf("%d records tell of %d ends", stopped, times)
	}
}

func (w *world) stop() {
	w.T.Helper()
	pid := w.BrokerPID()
	w.Must(syscall.Kill(pid, syscall.SIGHUP))
	w.Must(syscall.Kill(pid, syscall.SIGTERM))
	begun := time.Now()
	if code, took := w.WaitBroker(), time.Since(begun); code != 0 || took > 5*time.Second {
		w.T.Errorf("after SIGTERM the broker ended with %d in %s", code, took)
	}
}
