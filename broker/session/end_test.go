package session

import (
	"testing"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/internal/testproc"
)

// TestI7_NothingRisesAfterTheEnd: a promotion that was on its way to the disk
// when the anchor ended, and one that begins afterwards, raise nothing.
func TestI7_NothingRisesAfterTheEnd(t *testing.T) {
	s := session(t, "s1", 1, testproc.New(t).Start())
	up := func(ev lease.Event) lease.State {
		l, _, _ := s.Apply(ev, 1)
		return l.State()
	}
	begin, promote := lease.Begin{Max: lease.MaxTTL, Token: lease.Hash{1}}, lease.Promote{Token: lease.Hash{1}, Generation: 1}
	up(lease.GateSeen{})
	up(begin)
	if up(promote) != lease.Pending {
		t.Fatal("the promotion isn't on its way")
	}
	s.End(2)
	if up(lease.Promoted{Cycle: 1}) != lease.Unverified {
		t.Error("a promotion came through after the anchor's end")
	}
	for _, ev := range []lease.Event{begin, promote, lease.Promoted{Cycle: 2}} {
		if got := up(ev); got != lease.Unverified {
			t.Errorf("%T after the anchor's end gave %s", ev, got)
		}
	}
}
