//go:build attacks

package attacks

import (
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/wire"
)

// knocker connects and hangs up, again and again, and never waits; until stop.
func (w *world) knocker(path string) (stop func()) {
	var done atomic.Bool
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for !done.Load() {
				fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
				if err != nil {
					continue
				}
				_ = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
				_ = unix.Close(fd)
			}
		})
	}
	return func() { done.Store(true); all.Wait() }
}

// TestFloodKeepsNoOperatorOut: whoever connects to the operators' socket all the
// time and hangs up, or stands there in silence, keeps nobody from revoking.
//
// Few wait there and all of them in turn (internal/peer/connect.go, Crowd in
// broker/listen.go); who has left is let go at once (broker/door.go); silence
// gives way (broker/silent.go).
func TestFloodKeepsNoOperatorOut(t *testing.T) {
	w := start(t)
	anchor := w.Start()
	id := w.verified(anchor)
	crowd := w.Start()
	for range 12 {
		crowd.Flood(50, w.Paths.OperatorSocket, "")
	}
	defer w.knocker(w.Paths.OperatorSocket)()
	for range 10 {
		w.Run("revoke", id) // fails the test when it fails
		w.expect(anchor, "Write", "lease_revoked")
		w.approve(id)
	}
}

// deep is a process far below p.
func deep(p *testproc.Proc, depth int) *testproc.Proc {
	for range depth {
		p = p.Spawn(false, false)
	}
	return p
}

// TestFloodHidesNoCompaction: a session that floods the broker, from so deep
// below its anchor that each look takes long, may keep its host's word of lost
// context from being heard. It doesn't keep its lease.
//
// broker/knock.go.
func TestFloodHidesNoCompaction(t *testing.T) {
	w := start(t)
	anchor := w.Start()
	id := w.verified(anchor)
	below := deep(anchor, 40)
	var done atomic.Bool
	var all sync.WaitGroup
	defer func() { done.Store(true); all.Wait() }()
	for range 20 {
		flooder := below.Spawn(false, false)
		all.Go(func() {
			for !done.Load() {
				flooder.Flood(400, w.Paths.BrokerSocket, string(wire.RequestMagic[:]))
				flooder.Calm()
			}
		})
	}
	out := anchor.Run(true, payload("PreCompact", ""), w.gate("observe")...)
	if out.Exit != 0 {
		t.Errorf("an observer ended with %d: %s", out.Exit, out.Err)
	}
	if state := w.state(id); state != "UNVERIFIED" {
		t.Errorf("after a compaction under a flood the lease is %s", state)
	}
}
