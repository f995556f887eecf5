package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/wire"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		child(role)
		return
	}
	goleak.VerifyTestMain(m)
}

var testWall = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// open opens a writer that the test closes at its end if it hasn't itself.
func open(t testing.TB, o Options) *Writer {
	t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "audit")
	}
	w, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeWriter(t, w) })
	return w
}

func closeWriter(t testing.TB, w *Writer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := w.Close(ctx); err != nil {
		t.Errorf("closing: %v", err)
	}
}

func appendN(t testing.TB, w *Writer, n int) Head {
	t.Helper()
	var h Head
	for i := range n {
		var err error
		if h, err = w.Append(t.Context(), Record{Event: EventVerdict, Tool: fmt.Sprintf("tool-%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func verify(t testing.TB, dir string, stored *Head) Report {
	t.Helper()
	r, err := Verify(dir, stored)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func records(t testing.TB, dir string) []Record {
	t.Helper()
	var rs []Record
	if err := Read(dir, func(r Record, _ []byte) error {
		rs = append(rs, r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return rs
}

func TestAppendRoundTrip(t *testing.T) {
	fake := clock.NewFake(7, testWall)
	w := open(t, Options{Clock: fake, Epoch: "e1"})
	want := Record{
		Event: EventVerdict, Session: "s1", Generation: 2, Cycle: 3, State: "VERIFIED", Runtime: "claude",
		CallerPID: 4, CallerExe: "/bin/guard-gate", HostSession: "h", Agent: "a", AgentType: "general",
		ToolUse: "tu", HookEvent: "PreToolUse", Tool: "Bash", Class: "mutating", Verdict: "pass",
		Code: "checkpoint_confirmed", Reason: "a \"reason\"", Targets: []string{"app-01"},
		Checkpoint: []wire.CheckpointInfo{{VM: "app-01", VPG: "VPG-LOCAL", VPGID: "1", Tag: "t", ID: "9", Time: testWall}},
		Policies:   []PolicyResult{{Kind: PolicyHook, ID: "no-push", Source: "user", Hash: "sha256:0", Matcher: "Bash", Status: "allowed", DurationUS: 3, Decision: PolicyPasses}},
		Receipt:    "r", InputSHA256: strings.Repeat("a", 64), DurationUS: 12,
	}
	head, err := w.Append(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	want.Seq, want.Prev, want.Time, want.BootNS, want.Epoch, want.BootID = 1, zeroHash, testWall, 7, "e1", w.bootID
	got := records(t, w.opt.Dir)
	if diff := cmp.Diff([]Record{want}, got); diff != "" {
		t.Errorf("record differs (-want +got):\n%s", diff)
	}
	if head != w.Head() || head.Seq != 1 {
		t.Errorf("Append returned head %+v, Head() = %+v", head, w.Head())
	}
	if r := verify(t, w.opt.Dir, &head); r.Fault != nil || !r.HeadChecked || r.Records != 1 {
		t.Errorf("Verify = %+v", r)
	}
}

func TestRecordHasAllFields(t *testing.T) {
	b, err := encode(Record{})
	if err != nil {
		t.Fatal(err)
	}
	line := string(seal(nil, b, 1, zeroHash))
	for _, name := range []string{"seq", "time", "session", "generation", "tool", "class", "verdict", "code", "targets", "checkpoint", "input_sha256", "prev"} {
		if !strings.Contains(line, `"`+name+`":`) {
			t.Errorf("an empty record has no %q: %s", name, line)
		}
	}
	if strings.Contains(line, "null") {
		t.Errorf("an empty record has a null: %s", line)
	}
}

func TestReopenContinues(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	w := open(t, Options{Dir: dir})
	first := appendN(t, w, 3)
	closeWriter(t, w)
	w = open(t, Options{Dir: dir, Stored: &first})
	second := appendN(t, w, 1)
	if second.Seq != 4 || w.Fault() != "" {
		t.Errorf("after reopening the head is %+v and the fault %q, want record 4 and none", second, w.Fault())
	}
	if r := verify(t, dir, &second); r.Fault != nil || r.Records != 4 || r.Segments != 1 {
		t.Errorf("Verify = %+v", r)
	}
}

func TestClosedWriter(t *testing.T) {
	w := open(t, Options{})
	appendN(t, w, 1)
	closeWriter(t, w)
	if _, err := w.Append(t.Context(), Record{}); !errors.Is(err, ErrClosed) {
		t.Errorf("Append after Close: %v, want ErrClosed", err)
	}
	w.Log(Record{})
	if w.Dropped() != 1 {
		t.Errorf("Log after Close counted %d dropped, want 1", w.Dropped())
	}
}
