package audit

import (
	"fmt"
	"os"
	"path/filepath"

	"leaseguard.internal/internal/durable"
	"leaseguard.internal/internal/failpoint"
)

// prune removes the oldest segments as Keep and Max want, never the one that is
// written, nor the one that has the stored head. Two things come first: whoever keeps the head knows the oldest record
// that stays, and a record of the removal is on disk. A chain that begins later
// than that has been cut, and nobody who can write only the audit can make it
// look like retention.
func (w *Writer) prune() error {
	victims, kept, err := w.surplus()
	if err != nil {
		return w.fail(err)
	}
	if len(victims) == 0 {
		return nil
	}
	if !w.keepFrom(kept) {
		return nil // the next rotation tries again
	}
	err = w.own(Record{Event: EventBroker, Code: CodePruned, Targets: []string{segmentName(kept)},
		Count: uint64(len(victims)), Reason: fmt.Sprintf("removing %d segments before record %d", len(victims), kept)})
	if err != nil {
		return err
	}
	if err := w.sync(); err != nil {
		return err
	}
	if err := failpoint.Hit("audit/before-prune"); err != nil {
		return w.fail(err)
	}
	for _, first := range victims {
		if err := os.Remove(filepath.Join(w.opt.Dir, segmentName(first))); err != nil {
			return w.fail(fmt.Errorf("removing old audit segment: %w", err))
		}
	}
	if err := durable.SyncDir(w.opt.Dir); err != nil {
		return w.fail(err)
	}
	return nil
}

// surplus says which segments go and which is the oldest to stay.
func (w *Writer) surplus() (victims []uint64, kept uint64, err error) {
	limit := w.room.Load()
	if w.keep.Load() <= 0 && limit <= 0 {
		return nil, 0, nil
	}
	firsts, err := listSegments(w.opt.Dir)
	if err != nil {
		return nil, 0, err
	}
	var total int64
	infos := make([]os.FileInfo, len(firsts))
	for i, first := range firsts {
		if infos[i], err = os.Lstat(filepath.Join(w.opt.Dir, segmentName(first))); err != nil {
			return nil, 0, fmt.Errorf("listing audit segments: %w", err)
		}
		total += infos[i].Size()
	}
	n, err := w.aged(firsts)
	if err != nil {
		return nil, 0, err
	}
	for _, info := range infos[:n] {
		total -= info.Size()
	}
	for n < len(firsts)-1 && limit > 0 && total > limit {
		total -= infos[n].Size()
		n++
	}
	for n > 0 && firsts[n] > w.Head().Seq { // the segment of the head that is about to be stored
		n--
	}
	if n == 0 {
		return nil, 0, nil
	}
	return firsts[:n], firsts[n], nil
}
