package policy

import (
	"testing"

	"leaseguard.internal/internal/policysim"
)

// TestLongNumbersAreTwoCalls: whole numbers that a float can't tell apart are two
// inputs. Neither call has the other's approval, nor the other's allowance.
func TestLongNumbersAreTwoCalls(t *testing.T) {
	one, other := toolCall("mcp__disks__delete", `{"id":9007199254740992}`), toolCall("mcp__disks__delete", `{"id":9007199254740993}`)
	in(t, nil, func(w *world) {
		w.sim.Fail(policysim.Hang(), policysim.Hang())
		w.denies(one, unavailable)
		w.denies(other, unavailable)
		if s := w.sim.Seen(); len(s) != 2 || s[0].ID == s[1].ID {
			t.Errorf("another call has come back to an open approval: %+v", s)
		}
	})
	q, ok := newQuestion(one)
	if !ok || !q.same([]byte(`{"arguments": {"id": 9007199254740992}, "name": "mcp__disks__delete"}`)) {
		t.Error("what was asked is another call")
	}
	if q.same([]byte(`{"name":"mcp__disks__delete","arguments":{"id":9007199254740993}}`)) {
		t.Error("an allowance of another call is taken")
	}
}
