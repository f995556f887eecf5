package lease

import "testing"

// Whatever the cause, lowering takes all authority, and says why.
func TestEveryCauseLowers(t *testing.T) {
	if last := Cause(len(causeNames) - 1); last != Parted {
		t.Fatalf("the last cause is %v: name the new one, and what it does to a reason", last)
	}
	for c := range Cause(len(causeNames)) {
		if c.String() == "" || c.String() == Cause(255).String() {
			t.Errorf("cause %d has no name", c)
		}
		verified := Lease{state: Verified, generation: 1, gateSeen: true, end: 1 << 60, renew: token{hash: Hash{1}, expires: 1 << 60}}
		l, effects, err := Apply(verified, Lower{Cause: c}, 1)
		if err != nil || l.State() != Unverified || l.Cause() != c || l.Lowerings() != 1 || l.Left(1) != 0 || !l.renew.zero() || len(effects) != 1 {
			t.Errorf("%v: %+v, %v, %v", c, l, effects, err)
		}
	}
}
