package tree

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/peer"
)

// hunt is one call of End.
type hunt struct {
	quarries []*quarry
	anchors  map[int]*quarry  // by number
	held     map[int]*prey    // likewise: what is held and not reaped has its own
	avoid    map[peer.ID]bool // this process and its ancestors
	passing  []*peer.Process  // led a look on, and are closed after it
	limit    int              // of what is held
	full     bool             // the last look found more than can be held
	unsure   bool             // in the last look one was gone before it could be proved
	ran      bool             // and that within a moment of its birth
	newest   int              // the number that was given out last
	late     bool
	looking  bool // nothing is stopped: the caller only wants to know
}

// quarry is one tree.
type quarry struct {
	Target
	place int  // among the targets
	count int  // of what was taken
	hot   bool // the last look didn't see all of it
	out   Outcome
}

// prey is a process that was proved to belong to the tree.
type prey struct {
	*peer.Process
	of      *quarry
	first   clock.Instant // when it was found
	newborn bool          // a child of the anchor, which may yet become a hook, or below one
	shelter bool          // it or one above it keeps what is below it
	kept    bool          // the caller's to close
	stopped bool
	killed  bool
	refused bool // by the kernel
}

func newHunt(targets []Target) *hunt {
	h := &hunt{limit: maxHeld, anchors: map[int]*quarry{}, held: map[int]*prey{}, avoid: map[peer.ID]bool{}}
	for i, t := range targets {
		if t.Mercy == nil {
			t.Mercy = func(*peer.Process) Mercy { return None }
		}
		q := &quarry{Target: t, place: i}
		h.quarries = append(h.quarries, q)
		h.anchors[t.Anchor.PID()] = q
	}
	return h
}

// avoidSelf finds what must never be ended, whoever put it below an anchor.
func (h *hunt) avoidSelf() error {
	self, err := peer.Self()
	if err != nil {
		return err
	}
	defer func() { _ = self.Close() }()
	return peer.Ancestors(self, func(p *peer.Process) (bool, error) {
		h.avoid[p.ID()] = true
		return false, nil
	})
}

// take judges a process that is proved to belong to the tree, and holds it, also
// if it is spared for now. It says whether what is below it is to be looked at,
// and owns p from then on.
func (h *hunt) take(v *prey) (held, deeper bool) {
	switch {
	case h.avoid[v.ID()]:
		if !v.kept {
			h.passing = append(h.passing, v.Process)
		}
		return false, true
	case v.ID().Same(v.of.Anchor.ID()):
		v.drop()
		return false, false
	}
	v.first = now()
	h.held[v.PID()] = v
	v.of.count++
	return true, true
}

func (v *prey) sheltered() bool { return v.shelter && v.of.Anchor.Alive() }

func (v *prey) drop() {
	if !v.kept {
		_ = v.Close()
	}
}

// stop halts a process, unless it may still be spared. It answers whether that
// was news.
func (h *hunt) stop(v *prey) bool {
	if h.looking || v.stopped || v.refused || h.waits(v) {
		return false
	}
	switch err := v.Signal(unix.SIGSTOP); {
	case err == nil:
		v.stopped = true
	case errors.Is(err, unix.EPERM):
		v.refused = true
	}
	return v.stopped
}

// waits says whether the process is left alone for now.
func (h *hunt) waits(v *prey) bool {
	if v.sheltered() {
		return true
	}
	mercy := v.of.Mercy(v.Process)
	if h.late {
		return mercy == Spare
	}
	return mercy != None || v.newborn && now().Sub(v.first) < settle
}

// strike kills what has been stopped, and tries again where it was refused: the
// process may have changed its user. It answers how many it killed now. A cgroup
// whose anchor has ended is killed whole, if we may.
func (h *hunt) strike() (struck int) {
	for _, q := range h.quarries {
		if q.Cgroup.ID != 0 && !q.Anchor.Alive() {
			_ = q.Cgroup.kill() // else one by one
		}
	}
	for _, v := range h.held {
		if v.killed || !v.stopped && !v.refused {
			continue
		}
		if err := v.Signal(unix.SIGKILL); err == nil || errors.Is(err, unix.ESRCH) {
			v.killed, v.refused = true, false
			struck++
		}
	}
	return struck
}

// bury counts those that have ended and lets go of them.
func (h *hunt) bury() {
	for pid, v := range h.held {
		if v.Alive() {
			continue
		}
		if v.killed {
			v.of.out.Killed++
		}
		delete(h.held, pid)
		v.drop()
	}
}

// pending says whether something that can be ended hasn't yet, or may still be
// spared no more.
func (h *hunt) pending() bool {
	for _, v := range h.held {
		if !v.refused && !v.sheltered() && (!h.late || v.of.Mercy(v.Process) != Spare) {
			return true
		}
	}
	return h.full || h.unsure
}

// finish kills all that is held, waits a moment for their end, and counts the
// rest. Nothing stays behind stopped.
func (h *hunt) finish() {
	h.late = true
	for _, v := range h.held {
		h.stop(v)
	}
	h.strike()
	for _, q := range h.quarries {
		if (h.full || h.unsure) && (q.hot || h.ran) {
			q.out.Left++ // at least one that isn't held
		}
	}
	h.full, h.unsure = false, false
	ctx, cancel := context.WithTimeout(context.Background(), linger)
	defer cancel()
	for h.bury(); h.pending() && clock.Sleep(ctx, pause) == nil; {
		h.bury()
	}
	for _, v := range h.held {
		v.of.out.Left++ // spared or not
	}
}

func (h *hunt) fail(err error) {
	for _, q := range h.quarries {
		q.out.Err = err
	}
}

func (h *hunt) outcomes() []Outcome {
	out := make([]Outcome, 0, len(h.quarries))
	for _, q := range h.quarries {
		out = append(out, q.out)
	}
	return out
}

func (h *hunt) close() {
	for _, v := range h.held {
		v.drop()
	}
}
