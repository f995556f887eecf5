package broker

import "testing"

// A proof is its user's own: in system mode another's launcher could have told of
// one under a digest that isn't its client's.
func TestProofsAreAUsersOwn(t *testing.T) {
	p := newProofs()
	p.keep(proved{1000, "d"}, 5)
	for what, want := range map[proved]bool{{1000, "d"}: true, {1001, "d"}: false, {0, "d"}: false, {1000, "e"}: false} {
		if got := p.fresh(what, 6); got != want {
			t.Errorf("%+v: fresh %v", what, got)
		}
	}
	if p.fresh(proved{1000, "d"}, 5+1+24*3600*1e9) {
		t.Error("fresh after a day")
	}
	for i := range uint32(2 * maxProofs) {
		p.keep(proved{i, "d"}, 7)
	}
	if len(p.until) > maxProofs {
		t.Errorf("%d are kept", len(p.until))
	}
}
