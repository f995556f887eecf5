package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// restored is what Open finds: the segment to go on with, and what has to be
// recorded of what was found.
type restored struct {
	seg     segment
	records []Record
	fault   string
	floor   uint64 // the oldest record that is there
	empty   bool   // there is none
}

// tail is the end of the newest segment.
type tail struct {
	first  uint64
	lines  uint64
	last   []byte // copy of the last complete line
	end    int64  // behind that line
	excess int64  // bytes of an unfinished line
}

// restore finds the end of the chain in dir and holds it against what is kept
// elsewhere.
func restore(o Options) (restored, error) {
	dir, stored := o.Dir, o.Stored
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return restored{}, fmt.Errorf("making audit directory: %w", err)
	}
	if _, err := filePerm(dir); err != nil {
		return restored{}, err
	}
	t, records, err := newest(dir)
	if err != nil {
		return restored{}, err
	}
	out := restored{records: records, seg: segment{prev: zeroHash}, empty: t.lines == 0}
	if t.lines > 0 {
		out.seg.seq, out.seg.prev = t.first+t.lines-1, hashLine(t.last)
	}
	if out.fault, err = t.judge(o); err != nil {
		return restored{}, err
	}
	if out.fault != "" {
		if stored != nil && stored.Seq > out.seg.seq {
			out.seg.seq, out.seg.prev = stored.Seq, stored.Hash
		}
		out.records = append(out.records, Record{Event: EventAlarm, Code: CodeFault, Reason: out.fault})
	}
	if t.lines == 0 || out.fault != "" {
		err = out.seg.create(dir)
	} else {
		out.seg.file, err = openFile(dir, t.first, os.O_WRONLY|os.O_APPEND, 0)
		out.seg.size = t.end
	}
	out.seg.dirty = true // a writer that was killed may have left it unsynced
	if err != nil {
		return restored{}, err
	}
	firsts, err := listSegments(dir)
	if err != nil {
		return restored{}, errors.Join(err, out.seg.close())
	}
	out.floor = firsts[0]
	if stored != nil {
		out.floor = max(out.floor, stored.First)
	}
	return out, nil
}

// newest reads the newest segment that has a complete line. Unfinished lines
// are cut off, and segments that then have nothing are removed.
func newest(dir string) (tail, []Record, error) {
	var records []Record
	firsts, err := listSegments(dir)
	if err != nil {
		return tail{}, nil, err
	}
	for i := len(firsts) - 1; i >= 0; i-- {
		t, err := readTail(dir, firsts[i])
		if err != nil {
			return tail{}, nil, err
		}
		if t.excess > 0 {
			if err := cut(dir, t); err != nil {
				return tail{}, nil, err
			}
			records = append(records, Record{Event: EventBroker, Code: CodeTorn, Count: uint64(t.excess),
				Reason: fmt.Sprintf("cut %d bytes of an unfinished record from %s", t.excess, segmentName(t.first))})
		}
		if t.lines > 0 {
			return t, records, nil
		}
		if err := os.Remove(filepath.Join(dir, segmentName(t.first))); err != nil {
			return tail{}, nil, fmt.Errorf("removing empty audit segment: %w", err)
		}
	}
	return tail{}, records, nil
}

func readTail(dir string, first uint64) (tail, error) {
	f, err := openFile(dir, first, os.O_RDONLY, 0)
	if err != nil {
		return tail{}, err
	}
	t := tail{first: first}
	t.excess, err = readLines(f, func(l line) error {
		t.lines, t.end = t.lines+1, l.end
		t.last = append(t.last[:0], l.data...)
		return nil
	})
	return t, errors.Join(err, f.Close())
}

// cut removes the unfinished line. Its writer died before the sync, so nobody
// was told that it is there.
func cut(dir string, t tail) error {
	f, err := openFile(dir, t.first, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = f.Truncate(t.end)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		err = fmt.Errorf("cutting unfinished audit record: %w", err)
	}
	return errors.Join(err, f.Close())
}
