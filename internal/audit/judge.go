package audit

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// At a start the chain and what is kept elsewhere of it have to fit each other.
// Either may have been cut, edited, or put back from an older copy.

// lateHead is how much longer than headEvery a head may stay unstored in one run
// of the broker, before the store is taken for an older copy.
const lateHead = 50 * time.Second

// judge says what is wrong with the chain that ends in t, or nothing.
func (t tail) judge(o Options) (string, error) {
	if t.lines == 0 {
		if o.Stored != nil && o.Stored.Seq > 0 {
			return endCut(*o.Stored, 0), nil
		}
		return "", nil
	}
	last, fault := t.check()
	switch {
	case fault != "":
		return fault, nil
	case o.Stored == nil && o.OnHead != nil:
		return fmt.Sprintf("no head of it is stored, although the chain ends at record %d: the store was lost or set aside, and whether the end was cut can't be told", last.Seq), nil
	}
	if o.Stored != nil {
		if fault, err := checkStored(o.Dir, *o.Stored, last); fault != "" || err != nil {
			return fault, err
		}
	}
	if o.Runs != nil && !slices.Contains(o.Runs, last.Epoch) {
		return fmt.Sprintf("record %d, the last, is of a run of the broker that the store doesn't know: the store is an older copy, or the audit is another's", last.Seq), nil
	}
	return "", nil
}

// check says what is wrong with the last line, or nothing.
func (t tail) check() (r Record, fault string) {
	where := fmt.Sprintf("%s line %d", segmentName(t.first), t.lines)
	r, err := DecodeRecord(t.last)
	switch {
	case err != nil:
		return r, fmt.Sprintf("%s: %v", where, err)
	case r.Seq != t.first+t.lines-1:
		return r, fmt.Sprintf("%s has number %d, want %d", where, r.Seq, t.first+t.lines-1)
	}
	return r, ""
}

func endCut(stored Head, last uint64) string {
	return fmt.Sprintf("the chain ends at record %d, the stored head is %d: the end was cut", last, stored.Seq)
}

// checkStored looks for the stored head in the chain, which ends with last, and
// says what is wrong, or nothing.
func checkStored(dir string, stored Head, last Record) (string, error) {
	firsts, err := listSegments(dir)
	switch {
	case err != nil:
		return "", err
	case stored.Seq > last.Seq:
		return endCut(stored, last.Seq), nil
	case stored.First > 0 && firsts[0] > stored.First:
		return fmt.Sprintf("the chain begins at record %d, and record %d was kept: the beginning was cut", firsts[0], stored.First), nil
	case stored.Seq == 0:
		return "", nil
	}
	data, where, err := lineOf(dir, firsts, stored.Seq)
	switch {
	case err != nil:
		return "", err
	case data == nil:
		return fmt.Sprintf("record %d, the stored head, isn't in the chain", stored.Seq), nil
	case hashLine(data) != stored.Hash:
		return fmt.Sprintf("%s, record %d, isn't the one whose hash is stored: it was edited", where, stored.Seq), nil
	}
	return checkLate(dir, firsts, stored, last)
}

// checkLate says whether the stored head is older than a broker lets it become.
func checkLate(dir string, firsts []uint64, stored Head, last Record) (string, error) {
	if last.Seq == stored.Seq {
		return "", nil
	}
	data, _, err := lineOf(dir, firsts, stored.Seq+1)
	if err != nil {
		return "", err
	}
	next, err := DecodeRecord(data)
	if err != nil {
		return fmt.Sprintf("record %d: %v", stored.Seq+1, err), nil
	}
	if next.BootID != last.BootID || next.Epoch != last.Epoch || last.stamp().at.Sub(next.stamp().at) <= headEvery+lateHead {
		return "", nil
	}
	// Between two records the machine may have slept, and nobody stores a head
	// then: a gap counts for no more than it takes to store one.
	late, before := time.Duration(0), next.stamp().at
	said := false // that it couldn't be stored
	c := cursor{dir: dir, first: segmentOf(firsts, stored.Seq)}
	err = c.pass(func(r Record, _ []byte) error {
		if r.Seq > stored.Seq {
			late += min(max(r.stamp().at.Sub(before), 0), headEvery)
			before = r.stamp().at
			said = said || r.Code == CodeHeadError
		}
		return nil
	})
	switch {
	case errors.Is(err, ErrMalformed):
		return err.Error(), nil
	case said || err != nil || late <= headEvery+lateHead:
		return "", err
	}
	return fmt.Sprintf("the stored head, record %d, is at least %s older than record %d, the last: the store is an older copy", stored.Seq, late.Round(time.Second), last.Seq), nil
}

// segmentOf says which segment has to hold a record; 0: none.
func segmentOf(firsts []uint64, seq uint64) (first uint64) {
	for _, f := range firsts {
		if f <= seq {
			first = f
		}
	}
	return first
}

var errFound = errors.New("found")

// lineOf returns a record's line as it stands, nil when it isn't there.
func lineOf(dir string, firsts []uint64, seq uint64) (data []byte, where string, err error) {
	first := segmentOf(firsts, seq)
	if first == 0 {
		return nil, "", nil
	}
	f, err := openFile(dir, first, os.O_RDONLY, 0)
	if err != nil {
		return nil, "", err
	}
	at := first
	_, err = readLines(f, func(l line) error {
		if at != seq {
			at++
			return nil
		}
		data = append([]byte{}, l.data...)
		return errFound
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return data, fmt.Sprintf("%s line %d", segmentName(first), at-first+1), errors.Join(err, f.Close())
}
