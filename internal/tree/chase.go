package tree

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"time"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/peer"
)

// chases is how often a look tries to catch a runner at least, and maxChase the
// longest that it does.
const (
	chases   = 24
	maxChase = Time / 8
)

// chase looks for runners: a process that starts the next and ends is never where
// a listing saw it. But the number that the kernel gave out last is known, and
// who has it, or one since the last try, was born a moment ago. A runner that
// lives for 50 µs is caught in one of a few tries; one that is caught is stopped,
// and runs no more. Where others come and go as quickly, a look that missed some
// proves nothing, and there is another. It goes on for as long as the listing took:
// who makes that slow, by thousands of zombies, doesn't outrun it.
func (h *hunt) chase(listed time.Duration) (found int) {
	end := now().Add(min(listed, maxChase))
	for tries := 0; tries < chases || h.ran && now() < end; tries++ {
		last, err := newest()
		if err != nil {
			return found // /proc has process directories alone
		}
		first := max(h.newest+1, last-maxBorn)
		if h.newest == 0 || h.newest >= last { // the first try, none since, or the numbers began anew
			first = last
		}
		for pid := first; pid <= last; pid++ {
			h.try(pid, pid != h.newest, tries > 0, &found)
		}
		h.newest = last
	}
	return found
}

// maxBorn is how many numbers are tried at once.
const maxBorn = 64

// try takes the process of a number, if it belongs to a tree. Whoever was born
// since the last try, and that just now, and has ended is a runner: the tree's if
// it is a zombie of its, else nobody can tell any more whose it was.
func (h *hunt) try(pid int, born, just bool, found *int) {
	born = born && h.newest != 0
	p, err := peer.Open(pid)
	if err != nil { // it has ended, or is a thread
		h.full = h.full || exhausted(err)
		gone := born && errors.Is(err, peer.ErrGone)
		h.unsure, h.ran = h.unsure || gone, h.ran || gone && just
		return
	}
	if h.caught(p, found) {
		return
	}
	if born && !p.Alive() {
		if q, _ := h.lineage(p); q != nil {
			h.unsure, h.ran, q.hot = true, h.ran || just, true
		}
	}
	_ = p.Close()
}

// caught takes p if it belongs to a tree and wasn't known.
func (h *hunt) caught(p *peer.Process, found *int) (taken bool) {
	q, child := h.owner(p)
	if q == nil || !h.room(q) {
		return false
	}
	v := &prey{Process: p, of: q, newborn: child}
	held, _ := h.take(v)
	switch {
	case held && h.stop(v):
		*found++
	case held:
		h.unsure, q.hot = true, true
	}
	return true
}

// owner proves in which tree p is, if it is to be ended.
func (h *hunt) owner(p *peer.Process) (of *quarry, child bool) {
	of, child = h.lineage(p)
	if of == nil || !p.Alive() || of.Mercy(p) == Spare || sheltered(of, p) {
		return nil, false
	}
	return of, child
}

// lineage proves in which tree p is, step by step up to an anchor or to what is
// held, and whether it is the anchor's own child.
func (h *hunt) lineage(p *peer.Process) (of *quarry, child bool) {
	steps := -1
	_ = peer.Ancestors(p, func(up *peer.Process) (bool, error) { // what can't be proved is nobody's
		steps++
		if v := h.held[up.PID()]; v != nil && v.ID().Same(up.ID()) {
			if steps > 0 { // else it is known
				of = v.of
			}
			return true, nil
		}
		q := h.anchors[up.PID()]
		if q == nil || !up.ID().Same(q.Anchor.ID()) {
			return false, nil
		}
		if steps > 0 {
			of, child = q, steps == 1
		}
		return true, nil
	})
	return of, child
}

// sheltered says whether p is one, or below one, that keeps what is below it.
func sheltered(q *quarry, p *peer.Process) bool {
	stays := false
	_ = peer.Ancestors(p, func(up *peer.Process) (bool, error) {
		if up.ID().Same(q.Anchor.ID()) {
			return true, nil
		}
		stays = q.Mercy(up) == Shelter
		return stays, nil
	})
	return stays
}

func now() clock.Instant { return clock.System{}.Now() }

// newest reads the number that was given out last.
func newest() (int, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(text)
	if len(fields) != 5 {
		return 0, errors.New("/proc/loadavg isn't understood")
	}
	return strconv.Atoi(string(fields[4]))
}
