// Package tree ends what a session started and left running: every process
// below its anchor, children that forked twice and left their process session
// included, since the launcher made the anchor a subreaper.
//
// # What it promises
//
// A process is ended only if it was proved to belong to the session while its
// pidfd was held: step by step it is a child of the anchor, or of a process that
// was proved before, or it is in the session's cgroup. No signal goes by number.
// The anchor itself is never ended, nor this process and what stands above it,
// nor what the caller spares; that is waited for until the time is nearly over,
// in which it may end or be spared no more, and then counted as left.
//
// Each process is stopped as soon as it is found, and none is killed before a
// look finds no more of them: so a fork bomb can't outrun it, and nothing comes
// back in the place of what was killed. It is over when two looks in a row find
// nothing, or when the time is; then what is left is counted.
//
// # What it doesn't protect
//
// Without a cgroup, a process that left the tree before it was proved is nobody's:
// orphans of an anchor that has ended, unless they were Kept; what the anchor
// started beside itself by CLONE_PARENT, or after it gave up being a subreaper;
// what another service started for it (at, cron, systemd-run, an old tmux
// server). Processes of another uid need CAP_KILL; without it they are counted
// as left.
package tree

import (
	"context"
	"errors"
	"fmt"
	"time"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/peer"
)

// Bounds of one call of End.
const (
	// Time is the longest that it takes, but for a moment to see the last end.
	Time = 2 * time.Second
	// late is when the time is nearly over: what was spared for the time being
	// is ended then.
	late = Time * 3 / 4
	// settle is how long a child of the anchor is looked at before it is ended:
	// a host's hook begins as one that nobody can tell from others.
	settle = 100 * time.Millisecond
	// linger is how long the last of the killed may take to be gone.
	linger = 200 * time.Millisecond
	// maxHeld bounds the processes that are held at once; more of them are ended
	// in turns.
	maxHeld = 1024
)

// Mercy says whether a process of a tree is ended.
type Mercy uint8

// The mercies.
const (
	None    Mercy = iota
	Later         // it is about to end by itself: it has until the time is nearly over
	Spare         // it stays for as long as it is asked about, and what is below it doesn't
	Shelter       // it stays with what is below it, while the anchor lives
)

// Target is the tree of one session.
type Target struct {
	Anchor *peer.Process   // lives on; may have ended
	Kept   []*peer.Process // proved to be below the anchor at an earlier look
	Cgroup Cgroup          // whose members belong to the session, wherever they hang; zero: none
	Mercy  func(*peer.Process) Mercy
}

// Outcome is what became of one tree.
type Outcome struct {
	Killed int
	Left   int   // still there: another user's, spared, or not ended in time
	Err    error // it could not be looked at, so nothing is known of the rest
}

// ErrHidden says that processes exist that this one can't see.
var ErrHidden = errors.New("processes of other users are hidden (hidepid or ProtectProc)")

// End ends the trees of all targets and returns their outcomes in order. If ctx
// ends first, what was found until then is killed.
func End(ctx context.Context, targets ...Target) []Outcome {
	h := newHunt(targets)
	defer h.close()
	if err := h.run(ctx); err != nil {
		h.fail(err)
	}
	return h.outcomes()
}

func (h *hunt) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Time)
	defer cancel()
	if err := h.avoidSelf(); err != nil {
		return err
	}
	defer h.finish()
	began := now()
	for quiet := 0; quiet < 2; {
		h.late = now().Sub(began) >= late
		found, err := h.look()
		if err != nil {
			return err
		}
		h.bury()
		switch {
		case ctx.Err() != nil:
			return nil
		case found > 0 && !h.full && !h.late:
			quiet = 0
			continue // first stop them all
		case h.strike() > 0 || h.pending():
			quiet = 0
		default:
			quiet++
		}
		_ = clock.Sleep(ctx, pause) // its end is seen after the next look
	}
	return nil
}

// pause lies between two looks, so that the killed can end.
const pause = 3 * time.Millisecond

// Below returns the processes below each target's anchor, at most limit of each.
// They are the caller's to close.
func Below(limit int, targets ...Target) ([][]*peer.Process, error) {
	h := newHunt(targets)
	defer h.close()
	h.limit, h.looking = limit, true
	if err := h.avoidSelf(); err != nil {
		return nil, err
	}
	if _, err := h.look(); err != nil {
		return nil, fmt.Errorf("looking at what sessions have started: %w", err)
	}
	below := make([][]*peer.Process, len(targets))
	for pid, v := range h.held {
		below[v.of.place] = append(below[v.of.place], v.Process)
		delete(h.held, pid)
	}
	return below, nil
}
