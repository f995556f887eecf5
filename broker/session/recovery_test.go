package session

import (
	"errors"
	"os"
	"testing"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/testproc"
)

// TestPinAfterTheEnd: a call that comes as the session ends pins nobody, whom
// nothing would let go of any more.
func TestPinAfterTheEnd(t *testing.T) {
	zoo := testproc.New(t)
	anchor := zoo.Start()
	tool := anchor.Spawn(false, false)
	s := session(t, "s1", 1, anchor)
	first, late := open(t, tool), open(t, anchor.Spawn(false, false))
	if err := s.Pin(first); err != nil {
		t.Fatal(err)
	}
	s.Repin()
	tool.Kill()
	before := files(t)
	s.End(clock.Instant(1))
	s.Release()
	if err := s.Pin(late); !errors.Is(err, peer.ErrGone) {
		t.Errorf("Pin after the end: %v, want ErrGone", err)
	}
	if after := files(t); after > before-1 {
		t.Errorf("%d descriptors, %d before: what was pinned is held", after, before)
	}
}

func files(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
