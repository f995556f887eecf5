package tree

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/testproc"
)

// fenced makes a cgroup of its own below the one that the test is in, and puts
// the grove's anchor into it.
func (g *grove) fenced() Cgroup {
	g.Helper()
	name := fmt.Sprintf("leaseguard-test-%s.scope", g.mark)
	dir := testproc.Cgroup(g, name, g.anchor.PID())
	c, err := CgroupOf(g.anchor, name)
	g.must(err)
	if c.ID == 0 || c.Dir != dir || !c.Root {
		g.Fatalf("cgroup %+v, want the one of %q", c, dir)
	}
	return c
}

// What the anchor's end leaves nobody to prove, the cgroup still holds: killed
// whole where we may, one by one where we may not.
func TestCgroupOutlivesTheAnchor(t *testing.T) {
	for _, whole := range []bool{true, false} {
		t.Run(fmt.Sprint("whole ", whole), func(t *testing.T) {
			g := newGrove(t)
			c := g.fenced()
			g.run(`setsid sh -c 'SLEEP & exit' & SLEEP & exit`)
			pids := g.grown(2)
			g.must(g.in.Close())
			_ = g.cmd.Wait()
			if out := g.end(Target{Anchor: g.anchor}); out != (Outcome{}) {
				t.Errorf("without the cgroup: outcome %+v", out)
			}
			if !whole {
				c.Dir = "/nonexistent"
			}
			if out := g.end(Target{Anchor: g.anchor, Cgroup: c}); out.Killed < 2 || out.Left != 0 {
				t.Errorf("outcome %+v", out)
			}
			if left := g.sleepers(); len(left) > 0 {
				t.Errorf("of %v are left %v", pids, left)
			}
		})
	}
}

// While the anchor lives it is spared, with the rest of its cgroup ended: also
// what has slipped out of its tree.
func TestCgroupSparesTheAnchor(t *testing.T) {
	g := newGrove(t)
	c := g.fenced()
	g.run("renounce") // from now on orphans are nobody's
	g.run(`setsid sh -c 'SLEEP & exit' & exit`)
	g.run(`exec SLEEP`)
	g.grown(2)
	target := g.target()
	target.Cgroup = c
	if out := g.end(target); out.Killed < 2 || out.Left != 0 {
		t.Errorf("outcome %+v, want 2 killed", out)
	}
	g.standing()
}

func TestCgroupOf(t *testing.T) {
	g := newGrove(t)
	c := g.fenced()
	if _, err := CgroupOf(g.anchor, "another.scope"); err == nil {
		t.Error("a cgroup of another name is taken")
	}
	self, err := peer.Self()
	g.must(err)
	defer func() { _ = self.Close() }()
	if got, err := CgroupOf(self, filepath.Base(c.Dir)); err == nil {
		t.Errorf("a process outside is in %+v", got)
	}
	g.must(unix.Chown(c.Dir, 65534, 65534))
	if got, err := CgroupOf(g.anchor, filepath.Base(c.Dir)); err != nil || got.Root {
		t.Errorf("a cgroup that a user may change: %+v, %v", got, err)
	}
	c.ID++
	if err := c.kill(); err == nil || !strings.Contains(err.Error(), "another cgroup") {
		t.Errorf("killing another cgroup under the same name: %v", err)
	}
	if !g.anchor.Alive() {
		t.Error("it was killed")
	}
}
