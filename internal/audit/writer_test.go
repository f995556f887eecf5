package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"leaseguard.internal/internal/clock"
)

func TestRotation(t *testing.T) {
	var mu sync.Mutex
	var heads []Head
	w := open(t, Options{SegmentSize: 2000, OnHead: func(h Head) error {
		mu.Lock()
		defer mu.Unlock()
		heads = append(heads, h)
		return nil
	}})
	head := appendN(t, w, 20)
	closeWriter(t, w)
	r := verify(t, w.opt.Dir, &head)
	if r.Fault != nil || r.Records != 20 || r.Segments < 4 {
		t.Errorf("Verify = %+v, fault %v", r, r.Fault)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(heads) == 0 || heads[len(heads)-1] != (Head{head.Seq, head.Hash, 1}) {
		t.Errorf("stored heads %v, want the last to be %v", heads, head)
	}
	if !slices.IsSortedFunc(heads, func(a, b Head) int { return int(a.Seq) - int(b.Seq) }) {
		t.Errorf("stored heads go back: %v", heads)
	}
}

func TestSaveHead(t *testing.T) {
	saved := make(chan Head, 8)
	w := open(t, Options{OnHead: func(h Head) error { saved <- h; return nil }})
	head := appendN(t, w, 2)
	w.SaveHead()
	for h := range saved {
		if h.Seq == head.Seq && h.Hash == head.Hash {
			break
		}
	}
}

// A head that can't be stored is said once, in the audit itself.
func TestHeadErrorIsRecorded(t *testing.T) {
	called := make(chan struct{}, 16)
	w := open(t, Options{OnHead: func(Head) error { called <- struct{}{}; return errors.New("no room") }})
	for range 3 {
		appendN(t, w, 1)
		w.SaveHead()
		<-called
	}
	closeWriter(t, w)
	n := 0
	for _, r := range records(t, w.opt.Dir) {
		if r.Code == CodeHeadError {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d records of it, want 1", n)
	}
}

func TestRetention(t *testing.T) {
	for _, tt := range []struct {
		name string
		opt  Options
	}{
		{"by size", Options{SegmentSize: 2000, Max: 6000}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := open(t, tt.opt)
			dir, head := w.opt.Dir, appendN(t, w, 40)
			closeWriter(t, w)
			r := verify(t, dir, nil)
			if r.Fault != nil || r.First == 1 || r.Head.Seq < head.Seq {
				t.Errorf("Verify = %+v, fault %v; want a late start without fault", r, r.Fault)
			}
			var size int64
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				info, err := e.Info()
				if err != nil {
					t.Fatal(err)
				}
				size += info.Size()
			}
			if size > 12_000 {
				t.Errorf("%d bytes are left", size)
			}
			// What retention kept is still guarded: a further cut is found.
			remove(t, dir, r.First)
			if r := verify(t, dir, &r.Head); r.Fault == nil || r.Fault.Kind != FaultCut {
				t.Errorf("a cut beyond retention: %v", r.Fault)
			}
		})
	}
}

func TestLogBecomesDurable(t *testing.T) {
	w := open(t, Options{})
	w.Log(Record{Event: EventLease, Code: "begin"})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for w.Head().Seq == 0 && ctx.Err() == nil {
		_ = clock.Sleep(ctx, time.Millisecond)
	}
	if got := records(t, w.opt.Dir); len(got) != 1 || got[0].Code != "begin" || w.Head().Seq != 1 {
		t.Errorf("after Log: %+v, head %+v", got, w.Head())
	}
}

// What finds the queue full is counted, and the number is recorded.
func TestDroppedAreRecorded(t *testing.T) {
	w := open(t, Options{})
	idle := &Writer{opt: w.opt, queue: make(chan *entry, 2), quit: make(chan struct{})}
	for range 5 {
		idle.Log(Record{})
	}
	if idle.Dropped() != 3 {
		t.Fatalf("%d dropped, want 3", idle.Dropped())
	}
	w.lost.Store(idle.lost.Load())
	appendN(t, w, 1)
	closeWriter(t, w)
	if got := records(t, w.opt.Dir); len(got) != 2 || got[0].Code != CodeDropped || got[0].Count != 3 {
		t.Errorf("records are %+v, want one of 3 dropped first", got)
	}
}

func TestManyWriters(t *testing.T) {
	w := open(t, Options{SegmentSize: 20_000})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for n := range 20 {
				if _, err := w.Append(context.Background(), Record{Session: fmt.Sprint(i), Count: uint64(n)}); err != nil {
					t.Error(err)
				}
				w.Log(Record{Session: "log"})
			}
		})
	}
	wg.Wait()
	closeWriter(t, w)
	head := w.Head()
	if r := verify(t, w.opt.Dir, &head); r.Fault != nil || r.Records != 640 || w.Dropped() != 0 {
		t.Errorf("Verify = %+v, fault %v, %d dropped", r, r.Fault, w.Dropped())
	}
	// One caller's records keep their order.
	last := map[string]uint64{}
	for _, r := range records(t, w.opt.Dir) {
		if r.Session != "log" && r.Count < last[r.Session] {
			t.Fatalf("session %s: record %d after %d", r.Session, r.Count, last[r.Session])
		}
		last[r.Session] = r.Count
	}
}

// After a failed write nothing is granted any more, and nothing blocks.
func TestD3_NoGrantWithoutRecord(t *testing.T) {
	w, err := Open(Options{Dir: filepath.Join(t.TempDir(), "audit"), SegmentSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	appendN(t, w, 1)
	if err := os.RemoveAll(w.opt.Dir); err != nil { // the next segment can't be made
		t.Fatal(err)
	}
	for range 3 {
		if _, err := w.Append(t.Context(), Record{}); err == nil || w.Err() == nil {
			t.Fatalf("Append = %v, Err = %v, want errors", err, w.Err())
		}
		w.Log(Record{})
	}
	if w.Dropped() != 3 {
		t.Errorf("%d dropped, want 3", w.Dropped())
	}
	if err := w.Close(t.Context()); err == nil {
		t.Error("Close hides the failure")
	}
}

func TestAppendEndsWithContext(t *testing.T) {
	w := open(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 { // whichever case of its select comes first
		if _, err := w.Append(ctx, Record{}); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("Append = %v", err)
		}
	}
}

func TestTooLargeIsRefusedAlone(t *testing.T) {
	w := open(t, Options{})
	many := Record{Targets: slices.Repeat([]string{string(make([]byte, MaxText))}, 100)}
	if _, err := w.Append(t.Context(), many); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Append = %v, want ErrTooLarge", err)
	}
	w.Log(many)
	if w.Dropped() != 1 || w.Err() != nil {
		t.Errorf("%d dropped, Err = %v", w.Dropped(), w.Err())
	}
	appendN(t, w, 1)
}

func TestFollowAcrossRotation(t *testing.T) {
	w := open(t, Options{SegmentSize: 2000})
	appendN(t, w, 5)
	ctx, cancel := context.WithCancel(t.Context())
	var seqs []uint64
	three := make(chan struct{})
	done := make(chan error)
	go func() {
		done <- Follow(ctx, w.opt.Dir, func(r Record, raw []byte) error {
			seqs = append(seqs, r.Seq)
			if r.Seq == 3 {
				close(three)
			}
			if r.Seq == 25 {
				cancel()
			}
			return nil
		})
	}()
	<-three
	appendN(t, w, 20)
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Follow = %v", err)
	}
	for i, s := range seqs {
		if s != uint64(i+1) {
			t.Fatalf("Follow gave records %v", seqs)
		}
	}
}

func TestReadStopsAtDamage(t *testing.T) {
	dir, lines, _ := chain(t, 1, 3)
	lines[0][1] = []byte("{}\n")
	writeChain(t, dir, lines, 3)
	n := 0
	err := Read(dir, func(Record, []byte) error { n++; return nil })
	if !errors.Is(err, ErrMalformed) || n != 1 {
		t.Errorf("Read = %v after %d records", err, n)
	}
	stop := errors.New("stop")
	if err := Read(dir, func(Record, []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("Read = %v, want the callback's error", err)
	}
}

// A segment that was removed or replaced under the writer ends the writing: its
// records would be on no disk that anybody reads.
func TestReplacedSegmentFails(t *testing.T) {
	dir := t.TempDir()
	w, err := Open(Options{Dir: dir, Clock: clock.System{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close(context.Background()) }()
	if _, err := w.Append(context.Background(), Record{Event: EventLease, Code: "begin"}); err != nil {
		t.Fatal(err)
	}
	segments, err := filepath.Glob(filepath.Join(dir, "audit-*.jsonl"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	copied, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(segments[0]), os.WriteFile(segments[0], copied, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Append(context.Background(), Record{Event: EventLease, Code: "promote"}); err == nil || w.Err() == nil {
		t.Error("a grant was recorded in a file that nobody will read")
	}
}
