package sdunit

import (
	"context"
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// journald takes the entries of a Journal.
type journald struct {
	t    *testing.T
	path string
	conn *net.UnixConn
}

func newJournald(t *testing.T) *journald {
	t.Helper()
	dir, err := os.MkdirTemp("", "jd-")
	if err != nil {
		t.Fatal(err)
	}
	d := &journald{t: t, path: filepath.Join(dir, "socket")}
	t.Cleanup(func() { d.stop(); _ = os.RemoveAll(dir) })
	return d
}

func (d *journald) start() {
	d.t.Helper()
	var err error
	if d.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: d.path, Net: "unixgram"}); err != nil {
		d.t.Fatal(err)
	}
}

func (d *journald) stop() {
	if d.conn != nil {
		_ = d.conn.Close()
		d.conn = nil
	}
}

func (d *journald) next() string {
	d.t.Helper()
	b := make([]byte, 64<<10)
	_ = d.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	n, err := d.conn.Read(b)
	if err != nil {
		d.t.Fatal(err)
	}
	return string(b[:n])
}

// run runs a journal until the test calls the answer.
func run(t *testing.T, j *Journal) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); j.Run(ctx) }()
	return func() { cancel(); <-done }
}

func TestJournalEntry(t *testing.T) {
	d := newJournald(t)
	d.start()
	j := JournalAt(d.path)
	defer run(t, j)()
	j.Log(Entry{Priority: Notice, Message: "denied\nPRIORITY=0", Fields: []string{"GUARD_TOOL", "Bash", "GUARD_EMPTY", "", "GUARD_CODE", "x=y"}})
	length := string(binary.LittleEndian.AppendUint64(nil, 17))
	want := "PRIORITY=5\nSYSLOG_IDENTIFIER=guard-broker\nMESSAGE\n" + length + "denied\nPRIORITY=0\nGUARD_TOOL=Bash\nGUARD_CODE=x=y\n"
	if got := d.next(); got != want {
		t.Errorf("entry %q, want %q", got, want)
	}
	j.Log(Entry{Message: strings.Repeat("x", 1<<20)})
	if got := d.next(); len(got) > maxField+100 {
		t.Errorf("an entry of %d bytes", len(got))
	}
}

// A journald that is absent costs the entries, which are counted, and nothing
// else: Log never waits.
func TestD3_JournalAbsent(t *testing.T) {
	d := newJournald(t)
	j := JournalAt(d.path)
	stop := run(t, j)
	const n = 3 * journalQueue
	for range n {
		j.Log(Entry{Message: "m"})
	}
	stop()
	if got := j.Lost(); got != n {
		t.Errorf("lost %d of %d", got, n)
	}
}

// A journald that is stopped takes entries up to its queue; what then waits
// longer than its turn, or finds no room, is counted. Once it goes on, entries
// arrive again.
func TestD3_JournalBlocked(t *testing.T) {
	d := newJournald(t)
	d.start()
	j := JournalAt(d.path)
	stop := run(t, j)
	const n = 3 * journalQueue // more than its queue and ours hold
	for range n {
		j.Log(Entry{Message: "m"})
	}
	if j.Lost() == 0 {
		t.Error("nothing was lost, so something was waited for or kept without a bound")
	}
	stop() // after one failed write the rest is given up
	read, err := 0, error(nil)
	for b := make([]byte, 1024); err == nil; read++ {
		_ = d.conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		_, err = d.conn.Read(b)
	}
	if got := uint64(read-1) + j.Lost(); got != n {
		t.Errorf("%d arrived and %d were counted as lost, of %d", read-1, j.Lost(), n)
	}
}

// A journald that begins anew is found again.
func TestJournalRestarts(t *testing.T) {
	d := newJournald(t)
	d.start()
	j := JournalAt(d.path)
	if err := j.send(Entry{Message: "1"}); err != nil {
		t.Fatal(err)
	}
	d.stop()
	if err := j.send(Entry{Message: "2"}); err == nil {
		t.Error("an entry for nobody was sent")
	}
	_ = os.Remove(d.path)
	d.start()
	if err := j.send(Entry{Message: "3"}); err != nil {
		t.Error(err)
	}
	if got := d.next(); !strings.Contains(got, "MESSAGE=3\n") {
		t.Errorf("heard %q", got)
	}
	_ = j.conn.Close()
}

func TestNoJournal(t *testing.T) {
	var j *Journal
	j.Log(Entry{})
	j.Run(t.Context())
	if j.Lost() != 0 {
		t.Error("lost what nobody wants")
	}
	if NewJournal(true) == nil {
		t.Error("no journal where one is expected")
	}
}
