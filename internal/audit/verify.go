package audit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// FaultKind says what happened to a chain.
type FaultKind string

// The kinds of faults.
const (
	FaultEdit    FaultKind = "edit"    // a line was changed
	FaultGap     FaultKind = "gap"     // records are missing between others
	FaultReorder FaultKind = "reorder" // records stand in another order, or twice
	FaultCut     FaultKind = "cut"     // records are missing at the beginning or the end
	FaultAlarm   FaultKind = "alarm"   // the broker itself found a fault at a start
)

// Fault is the first place where the chain is broken. Line counts from 1; 0 is
// the whole file.
type Fault struct {
	Kind FaultKind `json:"kind"`
	File string    `json:"file"`
	Line int       `json:"line"`
	Seq  uint64    `json:"seq"` // of the record that is wrong or missing there
	What string    `json:"what"`
}

// Error makes the fault one line for people.
func (f *Fault) Error() string {
	return fmt.Sprintf("%s at %s line %d, record %d: %s", f.Kind, f.File, f.Line, f.Seq, f.What)
}

// Report is the outcome of Verify. The chain is good when Fault is nil; that
// nothing is cut off its end is known only when HeadChecked is true as well.
type Report struct {
	Records     uint64 `json:"records"`
	Segments    int    `json:"segments"`
	First       uint64 `json:"first"` // number of the oldest record
	Head        Head   `json:"head"`  // of the newest record in the files
	HeadChecked bool   `json:"head_checked"`
	Unfinished  int64  `json:"unfinished"` // bytes behind the last newline; no fault
	Fault       *Fault `json:"fault"`
}

// verifyTries bounds how often Verify begins anew because retention removed a
// segment under it.
const verifyTries = 3

// Verify checks the chain in dir against itself and, unless it is nil, against
// the stored head, which has to be asked for first. It may run beside a writer.
func Verify(dir string, stored *Head) (Report, error) {
	var err error
	for range verifyTries {
		v := verifier{stored: stored, prev: zeroHash}
		if err = v.all(dir); err == nil {
			return v.finish(), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return Report{}, err
}

// place is where a line stands.
type place struct {
	file string
	line int
}

// verifier walks along the chain. After the first fault it goes on counting,
// and learns from what follows which kind of fault it was.
type verifier struct {
	stored *Head
	report Report

	at, before place  // this line and the one before
	seq        uint64 // of the line before
	prev       string // its hash
	unsure     bool   // the fault is a broken link: this line may be wrong or the one before
	missing    uint64 // the fault is a gap from here ...
	until      uint64 // ... to before here
	kept       uint64 // the oldest record that retention said it keeps
	headInside bool   // the stored head's number was seen
}

func (v *verifier) all(dir string) error {
	firsts, err := listSegments(dir)
	if err != nil {
		return err
	}
	for _, first := range firsts {
		f, err := openFile(dir, first, os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		if err := errors.Join(v.segment(f, first), f.Close()); err != nil {
			return err
		}
		if v.report.Unfinished > 0 && first != firsts[len(firsts)-1] {
			v.fault(FaultEdit, v.seq+1, fmt.Sprintf("%d bytes without a newline end a segment that has a successor", v.report.Unfinished))
		}
	}
	return nil
}

// segment takes one segment's lines.
func (v *verifier) segment(r io.Reader, first uint64) (err error) {
	v.report.Segments++
	name, n := segmentName(first), 0
	v.report.Unfinished, err = readLines(r, func(l line) error {
		n++
		v.before, v.at = v.at, place{name, n}
		v.next(l, first)
		return nil
	})
	return err
}

// next takes one line.
func (v *verifier) next(l line, first uint64) {
	v.report.Records++
	r, err := l.decode()
	if err != nil {
		v.fault(FaultEdit, v.seq+1, err.Error())
		v.seq, v.prev, v.unsure = v.seq+1, hashLine(l.data), false
		return
	}
	if v.report.Records == 1 {
		v.begin(r, first)
	}
	v.link(r, first)
	v.meaning(r)
	v.seq, v.prev = r.Seq, hashLine(l.data)
	if v.stored != nil && v.stored.Seq == r.Seq {
		v.headInside = true
		if v.prev != v.stored.Hash {
			v.fault(FaultEdit, r.Seq, "its hash isn't the stored head's")
		}
	}
}

// begin takes the oldest record as the chain's start. Whether a late start is
// retention's doing is known at the end.
func (v *verifier) begin(r Record, first uint64) {
	v.report.First = r.Seq
	v.seq = first - 1
	if first > 1 {
		v.prev = r.Prev
	}
}

// link compares a record with the one before.
func (v *verifier) link(r Record, first uint64) {
	if v.unsure {
		v.unsure = false
		if r.Prev != v.prev { // both links of the line before are broken
			*v.report.Fault = Fault{Kind: FaultEdit, File: v.before.file, Line: v.before.line, Seq: v.seq,
				What: "it fits neither the line before nor the line after"}
		}
	}
	if r.Seq >= v.missing && r.Seq < v.until {
		v.report.Fault.Kind = FaultReorder
		v.missing, v.until = 0, 0
	}
	want := v.seq + 1
	switch {
	case r.Seq > want:
		if v.fault(FaultGap, want, fmt.Sprintf("the next one is %d", r.Seq)) {
			v.missing, v.until = want, r.Seq
		}
	case r.Seq < want:
		v.fault(FaultReorder, r.Seq, fmt.Sprintf("want record %d here", want))
	case r.Prev != v.prev && v.report.Records == 1:
		v.fault(FaultEdit, r.Seq, "it is the first record and names one before it")
	case r.Prev != v.prev:
		if v.fault(FaultEdit, v.seq, "its hash isn't the one that the next line names") {
			v.report.Fault.File, v.report.Fault.Line = v.before.file, v.before.line
			v.unsure = true
		}
	case v.at.line == 1 && r.Seq != first:
		v.fault(FaultReorder, r.Seq, "the file's name says that another record is its first")
	}
}

// meaning heeds what the writer's own records say of the chain.
func (v *verifier) meaning(r Record) {
	switch {
	case r.Event == EventBroker && r.Code == CodePruned && len(r.Targets) == 1:
		if kept, ok := parseName(r.Targets[0]); ok {
			v.kept = max(v.kept, kept)
		}
	case r.Event == EventAlarm && r.Code == CodeFault:
		v.fault(FaultAlarm, r.Seq, "the broker found at its start: "+r.Reason)
	}
}

// fault notes a fault unless an earlier one stands.
func (v *verifier) fault(kind FaultKind, seq uint64, what string) bool {
	if v.report.Fault != nil {
		return false
	}
	v.report.Fault = &Fault{Kind: kind, File: v.at.file, Line: v.at.line, Seq: seq, What: what}
	return true
}

// finish judges what only the whole chain shows.
func (v *verifier) finish() Report {
	r := &v.report
	if r.Records > 0 {
		r.Head = Head{Seq: v.seq, Hash: v.prev}
	}
	if v.stored != nil {
		r.HeadChecked = v.headInside || v.stored.Seq == 0 && r.Records == 0
	}
	if v.stored != nil && v.stored.Seq > v.seq {
		v.fault(FaultCut, v.seq+1, fmt.Sprintf("the chain ends at record %d, the stored head is %d", v.seq, v.stored.Seq))
		r.HeadChecked = true
	}
	kept, who := v.kept, "no record says"
	if v.stored != nil && v.stored.First > 0 { // records can be forged by who can write the audit
		kept, who = v.stored.First, "the store doesn't say"
	}
	if r.First > 1 && r.First > kept {
		early := &Fault{Kind: FaultCut, File: segmentName(r.First), Line: 1, Seq: 1,
			What: fmt.Sprintf("records before %d are missing, and %s that retention removed them", r.First, who)}
		if r.Fault == nil || r.Fault.Kind == FaultAlarm {
			r.Fault = early
		}
	}
	return *r
}
