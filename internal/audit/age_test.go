package audit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"leaseguard.internal/internal/clock"
)

// aging is a writer of small segments on a clock that the test moves.
type aging struct {
	*Writer
	t     *testing.T
	clock *clock.Fake
}

func newAging(t *testing.T, keep time.Duration) *aging {
	fake := clock.NewFake(clock.Instant(time.Hour), testWall)
	return &aging{open(t, Options{SegmentSize: 1, Keep: keep, Clock: fake}), t, fake}
}

// add writes one record, and so one segment; of another boot when it is named.
func (a *aging) add(boot string) {
	a.t.Helper()
	if _, err := a.Append(context.Background(), Record{Event: EventVerdict, BootID: boot}); err != nil {
		a.t.Fatal(err)
	}
}

func (a *aging) oldest() uint64 {
	a.t.Helper()
	firsts, err := listSegments(a.opt.Dir)
	if err != nil {
		a.t.Fatal(err)
	}
	return firsts[0]
}

const day = 24 * time.Hour

// TestRetentionByAge: old segments go, young ones stay, and no clock that
// somebody sets makes young ones old.
func TestRetentionByAge(t *testing.T) {
	for _, tt := range []struct {
		name string
		act  func(a *aging)
		want uint64 // the oldest record afterwards; segments hold one each, or a removal's
	}{
		{"young", func(a *aging) { a.add(""); a.clock.Advance(89 * day); a.add("") }, 1},
		{"old, but of the stored head", func(a *aging) { a.add(""); a.clock.Advance(91 * day); a.add("") }, 1},
		{"old", func(a *aging) { a.add(""); a.clock.Advance(91 * day); a.add(""); a.add("") }, 2},
		{"a step of the wall clock forth", func(a *aging) { a.add(""); a.clock.StepWall(1000 * day); a.add(""); a.add("") }, 1},
		{"forth and back", func(a *aging) {
			a.add("")
			a.clock.StepWall(1000 * day)
			a.add("")
			a.clock.StepWall(-1000 * day)
			a.add("")
		}, 1},
		{"back, then time passes", func(a *aging) {
			a.add("")
			a.clock.StepWall(-50 * day)
			a.clock.Advance(100 * day)
			a.add("")
		}, 1},
		{"a boot with a wrong date", func(a *aging) { a.add("before"); a.clock.StepWall(27_000 * day); a.add(""); a.add("") }, 1},
		{"half of it passed before the wrong date", func(a *aging) {
			a.add("before")
			a.clock.Advance(46 * day)
			a.add("before")
			a.clock.StepWall(27_000 * day)
			a.add("")
		}, 2},
		{"off for a while, then on", func(a *aging) {
			a.add("before")
			a.clock.StepWall(40 * day)
			a.clock.Advance(60 * day)
			a.add("")
		}, 1},
		{"up for long enough since another boot", func(a *aging) { a.add("before"); a.clock.Advance(91 * day); a.add(""); a.add("") }, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAging(t, 90*day)
			tt.act(a)
			if got := a.oldest(); got != tt.want {
				t.Errorf("the oldest record is %d, want %d", got, tt.want)
			}
			closeWriter(t, a.Writer)
			if r := verify(t, a.opt.Dir, nil); r.Fault != nil {
				t.Error(r.Fault)
			}
		})
	}
}

// TestRetentionKeepsYoung: whatever the wall clock does within a boot, nothing
// goes that is younger than Keep by CLOCK_BOOTTIME.
func TestRetentionKeepsYoung(t *testing.T) {
	memory := "/dev/shm" // nothing here is about a disk, and there are many syncs
	if _, err := os.Stat(memory); err != nil {
		memory = ""
	}
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(memory, "audit")
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		const keep = time.Hour
		fake := clock.NewFake(0, testWall)
		w, err := Open(Options{Dir: filepath.Join(dir, "a"), SegmentSize: 1, Keep: keep, Clock: fake})
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = w.Close(context.Background()) }()
		var written []clock.Instant // of record i+1
		for range rapid.IntRange(2, 8).Draw(rt, "records") {
			fake.Advance(time.Duration(rapid.IntRange(0, 90).Draw(rt, "minutes")) * time.Minute)
			fake.StepWall(time.Duration(rapid.IntRange(-200, 200).Draw(rt, "step")) * time.Minute)
			head, err := w.Append(context.Background(), Record{})
			if err != nil {
				rt.Fatal(err)
			}
			for uint64(len(written)) < head.Seq { // those of removals were written now, too
				written = append(written, fake.Now())
			}
		}
		firsts, err := listSegments(w.opt.Dir)
		if err != nil {
			rt.Fatal(err)
		}
		for i, at := range written {
			if age := fake.Now().Sub(at); age < keep && uint64(i+1) < firsts[0] {
				rt.Fatalf("record %d is gone after %s", i+1, age)
			}
		}
	})
}

// Without a store that knows of it nothing is removed, and the writing goes on.
func TestRetentionNeedsTheStore(t *testing.T) {
	full := errors.New("no room")
	refuse := true
	w := open(t, Options{SegmentSize: 500, Max: 1500, OnHead: func(h Head) error {
		if refuse && h.First > 1 {
			return full
		}
		return nil
	}})
	appendN(t, w, 20)
	if firsts, err := listSegments(w.opt.Dir); err != nil || firsts[0] != 1 {
		t.Errorf("segments %v, %v: something was removed", firsts, err)
	}
	closeWriter(t, w)
	refuse = false
	w = open(t, w.opt)
	appendN(t, w, 3)
	if firsts, err := listSegments(w.opt.Dir); err != nil || firsts[0] == 1 {
		t.Errorf("segments %v, %v: nothing was removed", firsts, err)
	}
}

// The store stops taking heads: the segment of the last one that it took stays,
// whatever Max says, so that a check still finds it.
func TestRetentionKeepsTheHead(t *testing.T) {
	var kept Head
	w := open(t, Options{SegmentSize: 500, Max: 1, OnHead: func(h Head) error {
		if h.Seq > 6 {
			return errors.New("no room")
		}
		kept = h
		return nil
	}})
	appendN(t, w, 40)
	closeWriter(t, w)
	if r := verify(t, w.opt.Dir, &kept); r.Fault != nil || !r.HeadChecked || kept.Seq == 0 {
		t.Errorf("head %+v: %+v, fault %v", kept, r, r.Fault)
	}
}
