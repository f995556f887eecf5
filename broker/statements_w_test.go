package broker

import (
	"testing"

	"leaseguard.internal/internal/wire"
)

// TestW13_OnlyCallsThatAreMetPay: hooks are matched by the tool's name alone, so a
// call that none is for starts nothing, and neither does one that is denied anyway.
func TestW13_OnlyCallsThatAreMetPay(t *testing.T) {
	f, s := hookedFixture(t, nil)
	f.session()
	f.expect(f.judged(f.call("Read", `{}`), noRunner(t)), "")
	if s.times() != 1 {
		t.Fatalf("hooks were looked for %d times", s.times())
	}
	s.set(met("h"))
	f.expect(f.judged(f.call("Write", `{}`), noRunner(t)), "lease_unverified")
	f.expect(f.judged(f.call("Read", `{"file_path":1}`), noRunner(t)), "malformed")
	if s.times() != 1 {
		t.Errorf("hooks were looked for %d times, for calls that are denied without them", s.times())
	}
	runs := 0
	f.expect(f.judged(f.call("Read", `{}`), func(wire.HookJob, string) []wire.HookResult {
		runs++
		return []wire.HookResult{allowed}
	}), "")
	if runs != 1 {
		t.Errorf("%d runs for a call that is met", runs)
	}
}
