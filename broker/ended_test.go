package broker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"leaseguard.internal/broker/store"
)

func nobody(string) bool { return false }

// Ended sessions beyond the bound leave memory and store, the oldest first; what
// lives again isn't forgotten.
func TestEndedIsBounded(t *testing.T) {
	e, began := newEnded(), time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	id := func(n int) string { return fmt.Sprintf("%016x", n) }
	const all = 3 * maxEnded
	for n := range all {
		e.add(store.Session{ID: id(n), Generation: 1, Started: began.Add(time.Duration(n) * time.Second)})
	}
	if len(e.by) < maxEnded || len(e.by) > maxEnded+maxEnded/10 {
		t.Errorf("%d ended sessions in memory", len(e.by))
	}
	if _, ok := e.find(id(all - 1)); !ok {
		t.Error("the newest is forgotten")
	}
	e.add(store.Session{ID: id(1), Generation: 2, Started: began}) // resumed and ended again
	over := e.over(func(s string) bool { return s == id(2) })
	if len(over)+len(e.by) != all-1 || !slices.Contains(over, id(0)) || slices.Contains(over, id(1)) || slices.Contains(over, id(2)) {
		t.Errorf("%d are to be deleted, %d are kept", len(over), len(e.by))
	}
	if again := e.over(nobody); len(again) != 0 {
		t.Errorf("%d were handed out twice", len(again))
	}
	e.expire(began.Add(all * time.Second))
	if over := e.over(nobody); len(e.by) != 0 || len(over) < maxEnded {
		t.Errorf("after their time %d are kept and %d to be deleted", len(e.by), len(over))
	}
}

// The store keeps a record of each user who had a session in this boot: whoever
// launches often enough to have their records forgotten is no operator either.
func TestEndedKeepsEachUsersLast(t *testing.T) {
	e, began := newEnded(), time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for n, id := range []string{"a1", "a2", "b1", "c1"} {
		if id != "c1" { // of another boot
			e.mark(uint32(id[0]), id)
		}
		e.add(store.Session{ID: id, Generation: 1, Started: began.Add(time.Duration(n) * time.Second)})
	}
	e.expire(began.Add(time.Hour))
	for want, last := range []string{"a3", ""} {
		over := e.over(nobody)
		if slices.Contains(over, "b1") || slices.Contains(over, "a2") != (want == 1) {
			t.Errorf("%q are to be deleted", over)
		}
		if last != "" {
			e.mark('a', last)
		}
	}
	if !e.had('a') || !e.had('b') || e.had('c') {
		t.Error("somebody's session is forgotten, or another boot's remembered")
	}
}

// What was forgotten in memory is deleted from the store, so that it doesn't
// come back at each start.
func TestEndedIsDeleted(t *testing.T) {
	f := newFixture(t, nil)
	old := store.Session{ID: "0123456789abcdef", Generation: 1, Started: f.clock.Wall().Add(-2 * keepEnded)}
	f.must(f.store.PutSession(t.Context(), old))
	f.ended.add(old)
	f.prune(t.Context())
	sessions, err := f.store.Sessions()
	if err != nil || len(sessions) != 0 {
		t.Errorf("still stored: %+v, %v", sessions, err)
	}
}

// Who launches all the time fills no disk: what is forgotten doesn't wait for its
// hour in the store.
func TestEndedMakesRoom(t *testing.T) {
	f := newFixture(t, nil)
	f.ended.mu.Lock()
	f.ended.gone = []string{"the first hour's"}
	f.ended.mu.Unlock()
	waiting := func() int {
		f.ended.mu.Lock()
		defer f.ended.mu.Unlock()
		return len(f.ended.gone)
	}
	f.eventually("the first look is over", func() bool { return waiting() == 0 })
	old := store.Session{ID: "0123456789abcdef", Generation: 1, Started: f.clock.Wall()}
	f.must(f.store.PutSession(t.Context(), old))
	f.ended.add(old)
	for n := range 2*maxEnded + 1 {
		f.ended.add(store.Session{ID: fmt.Sprint(n), Generation: 1, Started: old.Started.Add(time.Second)})
	}
	f.eventually("the store has forgotten it", func() bool {
		sessions, err := f.store.Sessions()
		return err == nil && len(sessions) == 0
	})
	e := newEnded()
	for n := range uint32(maxEnded) {
		e.mark(n, fmt.Sprint(n))
		e.gone = append(e.gone, fmt.Sprint(n))
	}
	e.over(nobody)
	if e.crowd() {
		t.Error("each user's last session, which has to stay, makes it look again and again")
	}
}
