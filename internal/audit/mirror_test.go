package audit

import (
	"slices"
	"sync"
	"testing"
)

// Whoever listens hears of the very records that are in the chain, the writer's
// own among them, in their order and with their numbers.
func TestMirror(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	var heard []Record
	w, err := Open(Options{Dir: dir, SegmentSize: 1, Mirror: func(r Record) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, r)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Append(t.Context(), Record{Event: EventBroker, Code: "one"}); err != nil {
		t.Fatal(err)
	}
	w.Log(Record{Event: EventBroker, Code: "two"})
	w.drop()
	w.Log(Record{Event: EventBroker, Code: "three"})
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Log(Record{Event: EventBroker, Code: "too late"})
	var written []Record
	if err := Read(dir, func(r Record, _ []byte) error { written = append(written, r); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(written) < 4 {
		t.Fatalf("%d records were written, want at least 4", len(written))
	}
	same := slices.EqualFunc(written, heard, func(a, b Record) bool {
		return a.Seq == b.Seq && a.Code == b.Code && a.Time.Equal(b.Time) && a.BootNS == b.BootNS
	})
	if !same {
		t.Errorf("heard %+v\nwritten %+v", heard, written)
	}
}

// What retention goes by can change while the writer runs.
func TestRetain(t *testing.T) {
	dir := t.TempDir()
	w, err := Open(Options{Dir: dir, SegmentSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	put := func() {
		t.Helper()
		if _, err := w.Append(t.Context(), Record{Event: EventBroker, Code: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	for range 8 {
		put()
	}
	before, err := listSegments(dir)
	if err != nil {
		t.Fatal(err)
	}
	w.Retain(0, 1)
	put()
	after, err := listSegments(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(before) < 8 || len(after) > 2 {
		t.Errorf("%d segments before, %d after", len(before), len(after))
	}
}
