package tree

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/peer"
)

// table is what one listing of the processes gave. Numbers are hints; who is in
// members was proved by its pidfd.
type table struct {
	children map[int][]int
	seen     map[int]bool
	members  map[uint64][]*peer.Process // by cgroup
	open     int                        // how many they are
}

// look proves and stops what belongs to the trees, and answers how many it
// stopped.
func (h *hunt) look() (found int, err error) {
	h.full, h.unsure, h.ran = false, false, false
	began := now()
	for _, q := range h.quarries {
		q.hot = false
	}
	t, err := h.list()
	defer func() {
		for _, ps := range t.members {
			for _, p := range ps {
				_ = p.Close()
			}
		}
		for _, p := range h.passing {
			_ = p.Close()
		}
		h.passing = nil
	}()
	if err != nil {
		return 0, err
	}
	for _, q := range h.quarries {
		n, err := h.search(q, t)
		if err != nil {
			return found, err
		}
		found += n
	}
	if !h.looking {
		found += h.chase(now().Sub(began))
	}
	return found, nil
}

// list reads who there is, and who their parents are.
func (h *hunt) list() (table, error) {
	t := table{children: map[int][]int{}, seen: map[int]bool{}, members: map[uint64][]*peer.Process{}}
	cgroups := map[uint64]bool{}
	for _, q := range h.quarries {
		if q.Cgroup.ID != 0 {
			cgroups[q.Cgroup.ID] = true
		}
	}
	dir, err := os.Open("/proc")
	if err != nil {
		return t, fmt.Errorf("listing processes: %w; is /proc mounted?", err)
	}
	defer func() { _ = dir.Close() }()
	for {
		names, err := dir.Readdirnames(128) // a few at a time: a process may be gone soon
		for _, name := range names {
			if pid, err := strconv.Atoi(name); err == nil && !h.enter(&t, pid, cgroups) {
				return t, nil
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return t, nil
		case err != nil:
			return t, fmt.Errorf("listing processes: %w", err)
		}
	}
}

// enter puts one process into the table. It answers false when no more can be
// opened.
func (h *hunt) enter(t *table, pid int, cgroups map[uint64]bool) bool {
	p, err := peer.Open(pid)
	if err != nil {
		h.full = h.full || exhausted(err)
		return !h.full
	}
	t.seen[pid] = true
	t.children[p.ParentPID()] = append(t.children[p.ParentPID()], pid)
	if len(cgroups) > 0 {
		if id, err := p.CgroupID(); err == nil && cgroups[id] {
			if t.open < h.limit { // more of them, and others would lack the descriptors
				t.members[id], t.open = append(t.members[id], p), t.open+1
				return true
			}
			h.full = true
		}
	}
	_ = p.Close()
	return true
}

func exhausted(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }

// search goes down one tree, from what is known to belong to it.
func (h *hunt) search(q *quarry, t table) (found int, err error) {
	var queue []*peer.Process
	visit := func(v *prey, held, deeper bool) {
		if held && deeper && h.stop(v) {
			found++
		}
		if deeper {
			queue = append(queue, v.Process)
		}
	}
	if q.Anchor.Alive() {
		if !t.seen[q.Anchor.PID()] && !h.full {
			return 0, ErrHidden
		}
		queue = append(queue, q.Anchor)
	}
	for _, p := range q.Kept {
		if h.held[p.PID()] == nil && p.Alive() {
			v := &prey{Process: p, of: q, kept: true, shelter: sheltered(q, p)}
			held, deeper := h.take(v)
			visit(v, held, deeper)
		}
	}
	q.hot = q.hot || q.Cgroup.ID != 0 && t.open >= h.limit
	for _, p := range t.members[q.Cgroup.ID] {
		if h.held[p.PID()] != nil || !h.room(q) {
			continue
		}
		if mine, err := p.Dup(); err == nil {
			v := &prey{Process: mine, of: q, newborn: p.ChildOf(q.Anchor), shelter: sheltered(q, p)}
			held, deeper := h.take(v)
			visit(v, held, deeper)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, pid := range t.children[queue[0].PID()] {
			visit(h.child(q, t, queue[0], pid))
		}
	}
	return found, nil
}

// child proves that the process with that number is a child of parent, unless it
// is held already.
func (h *hunt) child(q *quarry, t table, parent *peer.Process, pid int) (v *prey, held, deeper bool) {
	up := h.held[parent.PID()]
	shelter := func(p *peer.Process) bool {
		return up != nil && up.Process == parent && up.shelter || q.Mercy(p) == Shelter
	}
	if v := h.held[pid]; v != nil {
		deeper = v.of == q && v.Alive()
		if deeper && v.ChildOf(parent) {
			v.shelter = shelter(v.Process)
		}
		return v, true, deeper
	}
	if !h.room(q) {
		return nil, false, false
	}
	p, err := peer.Open(pid)
	switch {
	case err == nil && p.Alive() && p.ChildOf(parent):
		v := &prey{Process: p, of: q, newborn: parent == q.Anchor, shelter: shelter(p)}
		held, deeper := h.take(v)
		if up != nil && up.Process == parent && up.newborn { // the shell of a hook, perhaps
			v.newborn, v.first = true, up.first
		}
		return v, held, deeper
	case exhausted(err):
		h.full, q.hot = true, true
	case err != nil || p.Alive() || len(t.children[pid]) > 0:
		// It moved, or it ended and what was below it hangs elsewhere by now.
		h.unsure, q.hot = true, true
	}
	_ = p.Close()
	return nil, false, false
}

// room says whether one more can be held.
func (h *hunt) room(q *quarry) bool {
	if h.looking && q.count < h.limit || !h.looking && len(h.held) < h.limit {
		return true
	}
	h.full, q.hot = true, true
	return false
}
