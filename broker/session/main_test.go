package session

import (
	"testing"

	"go.uber.org/goleak"

	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/testproc"
)

func TestMain(m *testing.M) {
	testproc.Enter()
	goleak.VerifyTestMain(m)
}

// open opens a process, which is closed with the test.
func open(t *testing.T, p *testproc.Proc) *peer.Process {
	t.Helper()
	process, err := peer.Open(p.PID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Close() })
	return process
}

// session makes one that is anchored at p, not yet registered.
func session(t *testing.T, id string, generation uint64, p *testproc.Proc) *Session {
	t.Helper()
	s := &Session{ID: id, Runtime: "exec", UID: 1000, Generation: generation, Anchor: open(t, p)}
	s.Start(false, false)
	return s
}
