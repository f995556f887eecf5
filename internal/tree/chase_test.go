package tree

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/testproc"
)

// What was born a moment ago and has ended by now has started another, or may
// have: it is told, also if nothing of the tree can be seen.
func TestRunnersAreTold(t *testing.T) {
	g := newGrove(t)
	g.run(`sh -c 'echo $$ > DIR/born && mv DIR/born DIR/zombie' & exit`) // nobody reaps orphans there
	zombie := 0
	eventually(t, "it is a zombie", func() bool {
		_, err := os.Stat(g.dir + "/zombie")
		if errors.Is(err, fs.ErrNotExist) {
			return false
		}
		g.must(err)
		zombie = number(t, g.dir+"/zombie")
		p, err := peer.Open(zombie)
		g.must(err)
		defer func() { _ = p.Close() }()
		return !p.Alive()
	})
	const none = 1 << 30 // nobody's number
	for _, tt := range []struct {
		name       string
		pid, left  int
		born, just bool
	}{
		{"a zombie of the tree's", zombie, 1, true, true},
		{"one that may be older than the look", zombie, 1, true, false},
		{"one that isn't new", zombie, 0, false, true},
		{"somebody who is gone", none, 1, true, true},
		{"and may have been for a while", none, 0, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHunt([]Target{g.target()})
			defer h.close()
			found := 0
			h.newest = 1
			h.try(tt.pid, tt.born, tt.just, &found)
			h.finish()
			if out := h.outcomes()[0]; out.Left != tt.left || found != 0 {
				t.Errorf("outcome %+v, want %d left; %d found", out, tt.left, found)
			}
		})
	}
}

// What is below a child of the anchor has the time that this one has to become a
// hook, and no more.
func TestBornInAHook(t *testing.T) {
	g := newGrove(t)
	g.run(`setsid sh -c 'SLEEP; :'; :`)
	pid := g.grown(1)[0]
	h := newHunt([]Target{g.target()})
	defer h.close()
	g.must(h.avoidSelf())
	_, err := h.look()
	g.must(err)
	var first []clock.Instant
	for v := h.held[pid]; v != nil; v = h.held[v.ParentPID()] {
		if !v.newborn {
			t.Errorf("process %d has no time", v.PID())
		}
		first = append(first, v.first)
	}
	if len(first) != 3 || first[0] != first[1] || first[1] != first[2] {
		t.Errorf("they were found at %v, want one instant for three", first)
	}
	h.finish()
}

// However many a cgroup has, no more of them are opened than can be held: whoever
// ends a tree has others to serve.
func TestMembersAreBounded(t *testing.T) {
	g := newGrove(t)
	id, err := g.anchor.CgroupID()
	if err != nil {
		testproc.Lacks(t, "the kernel tells no cgroup by a pidfd")
	}
	for range 5 {
		g.run(`exec SLEEP`)
	}
	g.grown(5)
	h := newHunt([]Target{{Anchor: g.anchor, Cgroup: Cgroup{ID: id}}})
	defer h.close()
	h.limit = 3
	seen, err := h.list()
	g.must(err)
	for _, p := range seen.members[id] {
		_ = p.Close()
	}
	if n := len(seen.members[id]); n != 3 || !h.full {
		t.Errorf("%d are open, and more are known of: %v", n, h.full)
	}
}
