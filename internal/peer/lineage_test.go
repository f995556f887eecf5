package peer

import (
	"errors"
	"os"
	"slices"
	"testing"

	"leaseguard.internal/internal/testproc"
)

// lineage returns the pids from p up.
func lineage(t *testing.T, p *Process) []int {
	t.Helper()
	var pids []int
	if err := Ancestors(p, func(q *Process) (bool, error) {
		if !q.Alive() && q.PID() != p.PID() {
			t.Errorf("ancestor %d isn't alive", q.PID())
		}
		pids = append(pids, q.PID())
		return false, nil
	}); err != nil {
		t.Fatal(err)
	}
	return pids
}

func TestAncestors(t *testing.T) {
	onKernels(t, func(t *testing.T, k features) {
		zoo := testproc.New(t)
		parent := zoo.Start()
		child := parent.Spawn(false, true) // a session of its own changes nothing
		before := openFiles(t)
		p, err := open(k, child.PID)
		if err != nil {
			t.Fatal(err)
		}
		want := []int{child.PID, parent.PID, os.Getpid(), os.Getppid()}
		if got := lineage(t, p); len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			t.Errorf("lineage %v, want it to begin with %v", got, want)
		}
		_ = p.Close()
		if after := openFiles(t); after != before {
			t.Errorf("the walk left %d files open, before %d", after, before)
		}
	})
}

func TestAncestorsStopAndFail(t *testing.T) {
	p := mustOpen(t, mustKernel(t), os.Getpid())
	visits := 0
	if err := Ancestors(p, func(*Process) (bool, error) { visits++; return true, nil }); err != nil || visits != 1 {
		t.Errorf("stop at once: %d visits, %v", visits, err)
	}
	fault := errors.New("fault")
	if err := Ancestors(p, func(q *Process) (bool, error) {
		if q == p {
			return false, nil
		}
		return false, fault
	}); !errors.Is(err, fault) {
		t.Errorf("failing visit: %v, want the fault", err)
	}
	if !p.Alive() {
		t.Error("the walk closed the process that it was given")
	}
	if err := walk(p, 1, func(*Process) (bool, error) { return false, nil }); !errors.Is(err, ErrLineage) {
		t.Errorf("too deep: %v, want ErrLineage", err)
	}
}

func mustKernel(t *testing.T) features {
	t.Helper()
	k, err := kernel()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A double-forked process leaves the lineage, unless the anchor is a subreaper.
func TestOrphan(t *testing.T) {
	onKernels(t, func(t *testing.T, k features) {
		for _, subreaper := range []bool{false, true} {
			zoo := testproc.New(t)
			anchor := zoo.Start()
			if subreaper {
				anchor.Subreaper()
			}
			middle := anchor.Spawn(false, false)
			orphan := middle.Spawn(false, true)
			// Opened before, so that what it remembers of its parent is stale.
			p := mustOpen(t, k, orphan.PID)
			middle.Kill()
			middle.Reap(anchor)
			got := lineage(t, p)
			if slices.Contains(got, middle.PID) || slices.Contains(got, anchor.PID) != subreaper {
				t.Errorf("subreaper %v: lineage %v, anchor %d, dead parent %d", subreaper, got, anchor.PID, middle.PID)
			}
		}
	})
}

// A parent whose number went to a stranger is no parent.
func TestAttack11_ParentReplaced(t *testing.T) {
	onKernels(t, func(t *testing.T, k features) {
		zoo := testproc.New(t)
		middle := zoo.Start()
		orphan := middle.Spawn(false, true)
		p := mustOpen(t, k, orphan.PID)
		middle.Kill()
		middle.Reap(nil)
		if stranger := reuse(zoo, middle.PID); stranger == nil {
			t.Logf("pid %d could not be had again", middle.PID)
		}
		if got := lineage(t, p); slices.Contains(got, middle.PID) {
			t.Errorf("lineage %v holds a stranger, %d", got, middle.PID)
		}
	})
}

func TestTop(t *testing.T) {
	onKernels(t, func(t *testing.T, k features) {
		p := mustOpen(t, k, 1)
		if _, err := p.Parent(); !errors.Is(err, ErrTop) {
			t.Errorf("Parent of process 1: %v, want ErrTop", err)
		}
		if got := lineage(t, p); !slices.Equal(got, []int{1}) {
			t.Errorf("lineage of process 1: %v", got)
		}
	})
}

// stat shows no parent of a process that is being reaped, or whose parent is. What
// was read so ends no walk: the process has a parent, or it is gone.
func TestAttack11_NoParentIsLookedForAgain(t *testing.T) {
	onKernels(t, func(t *testing.T, k features) {
		zoo := testproc.New(t)
		child := zoo.Start()
		p := mustOpen(t, k, child.PID)
		p.ppid = 0 // as read at the wrong moment
		if got, want := lineage(t, p), []int{child.PID, os.Getpid()}; len(got) < 2 || !slices.Equal(got[:2], want) {
			t.Errorf("lineage %v, want it to begin with %v", got, want)
		}
		child.Kill()
		if _, err := p.Parent(); !errors.Is(err, ErrGone) && !k.getInfo {
			t.Errorf("Parent of what is ending: %v, want ErrGone", err)
		}
		child.Reap(nil)
		if _, err := p.Parent(); !errors.Is(err, ErrGone) {
			t.Errorf("Parent of what has ended: %v, want ErrGone", err)
		}
	})
}
