package session

import (
	"errors"
	"strings"
	"testing"

	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/testproc"
)

func TestAddRefuses(t *testing.T) {
	zoo := testproc.New(t)
	outer := zoo.Start()
	anchor := outer.Spawn(false, false)
	inner := anchor.Spawn(false, false).Spawn(false, true)
	other, dead := zoo.Start(), zoo.Start()
	r := NewRegistry(2)
	mustAdd(t, r, session(t, "s1", 3, anchor))
	gone := session(t, "s2", 1, dead)
	dead.Kill()

	for _, tt := range []struct {
		name string
		s    *Session
		want error
	}{
		{"dead anchor", gone, peer.ErrGone},
		{"same process, other id", session(t, "s2", 1, anchor), ErrTaken},
		{"same id, living anchor", session(t, "s1", 4, other), ErrTaken},
		{"inside a session", session(t, "s2", 1, inner), ErrNested},
		{"around a session", session(t, "s2", 1, outer), ErrNested},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := r.Add(tt.s); !errors.Is(err, tt.want) {
				t.Errorf("Add = %v, want %v", err, tt.want)
			}
			if r.Len() != 1 || len(r.watch.held) != 1 {
				t.Errorf("%d sessions, %d watched; want 1", r.Len(), len(r.watch.held))
			}
		})
	}
}

// Once nothing hangs below it any more, a process may be an anchor.
func TestAddAfterTheInnerOneLeft(t *testing.T) {
	zoo := testproc.New(t)
	outer := zoo.Start()
	middle := outer.Spawn(false, false)
	inner := middle.Spawn(false, true)
	r := NewRegistry(8)
	mustAdd(t, r, session(t, "s1", 1, inner))
	middle.Kill() // inner goes to a process above outer
	middle.Reap(outer)
	mustAdd(t, r, session(t, "s2", 1, outer))
}

func TestLimitPerUser(t *testing.T) {
	zoo := testproc.New(t)
	r := NewRegistry(2)
	first := zoo.Start()
	mustAdd(t, r, session(t, "s1", 1, first))
	mustAdd(t, r, session(t, "s2", 1, zoo.Start()))
	third := session(t, "s3", 1, zoo.Start())
	if err := r.Add(third); !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "limits.sessions_per_uid") {
		t.Errorf("Add = %v, want ErrLimit with the key's name", err)
	}
	elsewhere := session(t, "s4", 1, zoo.Start())
	elsewhere.UID = 1001
	mustAdd(t, r, elsewhere)
	first.Kill() // a session that ended takes no room, even before that was told
	mustAdd(t, r, third)
	if err := NewRegistry(0).Add(session(t, "s1", 1, zoo.Start())); !errors.Is(err, ErrLimit) {
		t.Errorf("Add without any room: %v, want ErrLimit", err)
	}
}

func TestNextGenerationReplacesTheDead(t *testing.T) {
	zoo := testproc.New(t)
	r := NewRegistry(1)
	first := zoo.Start()
	old := session(t, "s1", 2, first)
	mustAdd(t, r, old)
	first.Kill()
	for _, generation := range []uint64{1, 2} {
		if err := r.Add(session(t, "s1", generation, zoo.Start())); !errors.Is(err, ErrTaken) {
			t.Errorf("generation %d after 2: %v, want ErrTaken", generation, err)
		}
	}
	second := zoo.Start()
	next := session(t, "s1", 3, second)
	mustAdd(t, r, next)
	r.Remove(old) // too late: the id is the next generation's
	if r.ByID("s1") != next || r.Len() != 1 {
		t.Errorf("ByID = %v of %d sessions, want the next generation", r.ByID("s1"), r.Len())
	}
	if found, _, err := r.Find(open(t, second)); err != nil || found != next {
		t.Errorf("Find = %v, %v", found, err)
	}
}
