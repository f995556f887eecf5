package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leaseguard.internal/internal/clock"
)

func ignore(Head) error { return nil }

// faultAt opens what is in dir and returns what Open found wrong. The alarm has
// to be in the audit, too.
func faultAt(t *testing.T, o Options) string {
	t.Helper()
	w := open(t, o)
	closeWriter(t, w)
	alarms := 0
	for _, r := range records(t, o.Dir) {
		if r.Event == EventAlarm && r.Code == CodeFault && r.Reason == clip(w.Fault()) {
			alarms++
		}
	}
	if (w.Fault() != "") != (alarms > 0) {
		t.Errorf("fault %q and %d alarms", w.Fault(), alarms)
	}
	return w.Fault()
}

// TestHeadUnknown: a store that was lost or set aside is noticed by the chain
// that it knows nothing of; an empty chain is known to be empty.
func TestHeadUnknown(t *testing.T) {
	dir, _, _ := chain(t, 1, 3)
	if f := faultAt(t, Options{Dir: dir, OnHead: ignore}); !strings.Contains(f, "no head of it is stored, although the chain ends at record 3") {
		t.Errorf("fault %q", f)
	}
	var kept []Head
	w := open(t, Options{OnHead: func(h Head) error { kept = append(kept, h); return nil }})
	if w.Fault() != "" || len(kept) != 1 || kept[0] != (Head{}) {
		t.Errorf("a first start: fault %q, kept %+v; want the head of an empty chain", w.Fault(), kept)
	}
	appendN(t, w, 2)
	closeWriter(t, w) // as if it had died before the next head was kept:
	if f := faultAt(t, Options{Dir: w.opt.Dir, OnHead: ignore, Stored: &Head{}}); f != "" {
		t.Errorf("died before its first head: %q", f)
	}
}

// TestRestoredCopies: either side of the two may be an older copy.
func TestRestoredCopies(t *testing.T) {
	boot, err := clock.BootID()
	if err != nil {
		t.Fatal(err)
	}
	// Records one second apart, by three runs of the broker.
	dir := filepath.Join(t.TempDir(), "audit")
	var heads []Head
	fake := clock.NewFake(clock.Instant(time.Hour), testWall)
	for run := range 3 {
		var stored *Head
		if run > 0 {
			stored = &heads[len(heads)-1]
		}
		w := open(t, Options{Dir: dir, Clock: fake, Epoch: fmt.Sprint("run", run), Stored: stored})
		for range 100 {
			fake.Advance(time.Second)
			heads = append(heads, appendN(t, w, 1))
		}
		closeWriter(t, w)
	}
	copied := func(o Options) Options {
		to := filepath.Join(t.TempDir(), "audit")
		if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		o.Dir, o.OnHead, o.Clock = to, ignore, fake
		return o
	}
	for _, tt := range []struct {
		name string
		opt  Options
		want string
	}{
		{"as it was left", Options{Stored: &heads[299], Runs: []string{"run2"}}, ""},
		{"killed before the last head", Options{Stored: &heads[290], Runs: []string{"run2"}}, ""},
		{"killed, then a run without a record", Options{Stored: &heads[290], Runs: []string{"run2", "run3"}}, ""},
		{"the store of an earlier run", Options{Stored: &heads[150], Runs: []string{"run1"}}, "is of a run of the broker that the store doesn't know"},
		{"an older copy of the same run", Options{Stored: &heads[210], Runs: []string{"run2"}}, "is at least 1m28s older than record 300, the last: the store is an older copy"},
		{"nobody kept the runs yet", Options{Stored: &heads[299]}, ""},
		{"the audit of an earlier day", Options{Stored: &Head{Seq: 400, Hash: heads[0].Hash}, Runs: []string{"run4"}}, "the end was cut"},
		{"another machine's audit", Options{Stored: &Head{Seq: 299, Hash: heads[0].Hash}, Runs: []string{"x"}}, "it was edited"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if f := faultAt(t, copied(tt.opt)); tt.want == "" && f != "" || !strings.Contains(f, tt.want) {
				t.Errorf("boot %s: fault %q, want %q", boot, f, tt.want)
			}
		})
	}
}

// A head that is old because the store couldn't be written is no older copy: the
// audit says so itself.
func TestLateHeadIsExplained(t *testing.T) {
	fake := clock.NewFake(0, testWall)
	w := open(t, Options{Clock: fake, Epoch: "e", OnHead: func(h Head) error {
		if h.Seq > 1 {
			return errors.New("no room")
		}
		return nil
	}})
	first := appendN(t, w, 1)
	for range 3 {
		fake.Advance(time.Minute)
		appendN(t, w, 1)
		w.storeHead()
	}
	closeWriter(t, w)
	if f := faultAt(t, Options{Dir: w.opt.Dir, OnHead: ignore, Clock: fake, Stored: &first, Runs: []string{"e"}}); f != "" {
		t.Errorf("fault %q", f)
	}
}

// A machine that slept between two records stored no head while it slept.
func TestSuspendIsNoOlderCopy(t *testing.T) {
	fake := clock.NewFake(0, testWall)
	w := open(t, Options{Clock: fake, Epoch: "e", OnHead: ignore})
	head := appendN(t, w, 1)
	for range 3 {
		appendN(t, w, 1)
		fake.Advance(8 * time.Hour)
	}
	appendN(t, w, 1)
	closeWriter(t, w)
	if f := faultAt(t, Options{Dir: w.opt.Dir, OnHead: ignore, Clock: fake, Stored: &head, Runs: []string{"e"}}); f != "" {
		t.Errorf("fault %q", f)
	}
}

// TestForgedRetention: who can write the audit and not the store removes old
// records and adds one that says that retention did.
func TestForgedRetention(t *testing.T) {
	dir, lines, stored := chain(t, 3, 4)
	stored.First = 1
	forge := segment{seq: 12, prev: hashLine(lines[2][3][:len(lines[2][3])-1])}
	body, err := encode(Record{Event: EventBroker, Code: CodePruned, Targets: []string{segmentName(5)}, Time: testWall})
	if err != nil {
		t.Fatal(err)
	}
	forge.add(body)
	lines[2] = append(lines[2], forge.buf)
	writeChain(t, dir, lines, 4)
	remove(t, dir, 1)
	if r := verify(t, dir, &stored); r.Fault == nil || r.Fault.Kind != FaultCut {
		t.Errorf("Verify found %v, want a cut", r.Fault)
	}
	if f := faultAt(t, Options{Dir: dir, OnHead: ignore, Stored: &stored}); !strings.Contains(f, "the beginning was cut") {
		t.Errorf("at the start: %q", f)
	}
}
