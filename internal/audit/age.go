package audit

import (
	"errors"
	"os"
	"time"

	"leaseguard.internal/internal/clock"
)

// How old a segment is decides whether it is removed, so no clock that somebody
// set wrong may make young ones old. A segment goes when the wall clock says so
// and as much time has been seen passing: within a boot by CLOCK_BOOTTIME, which
// nobody can step. Between two boots only the wall clock tells, and of what it
// tells at most half of Keep counts for each segment: one boot with a wrong date
// removes nothing that is younger than the other half.

// stamp is when a record was written.
type stamp struct {
	boot string
	at   clock.Instant // of that boot
	wall time.Time
}

func (r Record) stamp() stamp { return stamp{r.BootID, clock.Instant(r.BootNS), r.Time} }

func (w *Writer) now() stamp { return stamp{w.bootID, w.opt.Clock.Now(), w.opt.Clock.Wall()} }

// passed is the time from a to b that is beyond doubt, and of a time without
// witness at most unseen.
func passed(a, b stamp, unseen time.Duration) time.Duration {
	if a.boot == b.boot {
		return max(b.at.Sub(a.at), 0)
	}
	up := b.at.Sub(0) // b's boot came after a
	return max(up, min(b.wall.Sub(a.wall), unseen))
}

// aged counts the oldest of the segments whose newest record is older than Keep.
// The last one, which is being written, is never among them.
func (w *Writer) aged(firsts []uint64) (int, error) {
	keep, now := time.Duration(w.keep.Load()), w.now()
	if keep <= 0 {
		return 0, nil
	}
	oldest, ok, err := lastStamp(w.opt.Dir, firsts[0])
	if err != nil || !ok || now.wall.Sub(oldest.wall) < keep {
		return 0, err // the usual case takes one look
	}
	n, age, next := 0, time.Duration(0), now
	for i := len(firsts) - 2; i >= 0; i-- {
		last, ok, err := lastStamp(w.opt.Dir, firsts[i])
		if err != nil {
			return 0, err
		}
		if !ok {
			continue // no witness; those around it tell
		}
		age, next = age+passed(last, next, keep/2), last
		if age >= keep && now.wall.Sub(last.wall) >= keep {
			n = max(n, i+1) // and so are all before it
		}
	}
	return n, nil
}

// lastStamp reads the last complete line of a segment, without reading the rest.
func lastStamp(dir string, first uint64) (s stamp, ok bool, err error) {
	f, err := openFile(dir, first, os.O_RDONLY, 0)
	if err != nil {
		return stamp{}, false, err
	}
	var last []byte
	info, err := f.Stat()
	if err == nil {
		from := max(info.Size()-2*(MaxRecord+1), 0) // what stands there begins within a line
		if _, err = f.Seek(from, 0); err == nil {
			_, err = readLines(f, func(l line) error {
				last = append(last[:0], l.data...)
				return nil
			})
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return stamp{}, false, err
	}
	r, err := DecodeRecord(last)
	if err != nil {
		return stamp{}, false, nil //nolint:nilerr // a damaged line is no witness; Verify says more about it
	}
	return r.stamp(), true, nil
}
