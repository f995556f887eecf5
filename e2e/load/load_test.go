//go:build load

package load

import (
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"leaseguard.internal/internal/wire"
)

const (
	many       = 10_000
	sessionsOf = 40 // sessions that hold the hung connections, 250 each
	maxRevoke  = 50 * time.Millisecond
	maxRSS     = 64 << 10 // KiB
)

// TestHungConnections: sessions whose 10,000 connections say no whole word, and
// come again when they are refused, don't keep an operator from revoking.
func TestHungConnections(t *testing.T) {
	b := start(t, "calls_per_session = 256\n")
	var crowds []*crowd
	for range sessionsOf {
		c := b.crowd("hang", b.paths.BrokerSocket, strconv.Itoa(many/sessionsOf))
		c.there()
		crowds = append(crowds, c)
	}
	for _, c := range crowds { // now that all are registered
		if _, err := c.stdin.Write([]byte{'\n'}); err != nil {
			t.Fatal(err)
		}
	}
	open := 0
	for _, c := range crowds {
		open += c.there()
	}
	sessions := b.sessions()
	if open < many*9/10 || len(sessions) != sessionsOf {
		t.Fatalf("%d connections of %d sessions, want %d of %d", open, len(sessions), many, sessionsOf)
	}
	var socket, program []time.Duration
	for i := range 60 {
		id := sessions[i%len(sessions)].ID
		began := time.Now()
		res, err := b.do(wire.Control{Verb: wire.VerbRevoke, Session: id})
		socket = append(socket, time.Since(began))
		if err != nil || len(res.Revoked) != 1 {
			t.Fatalf("revoking: %+v, %v", res, err)
		}
		if i%4 == 0 {
			began = time.Now()
			if out, err := b.command(filepath.Join(bin, "guard"), "revoke", id).CombinedOutput(); err != nil {
				t.Fatalf("guard revoke: %v\n%s", err, out)
			}
			program = append(program, time.Since(began))
		}
		time.Sleep(100 * time.Millisecond) // the hung ones time out and come again meanwhile
	}
	slices.Sort(socket)
	slices.Sort(program)
	t.Logf("%d connections open, broker holds %d files, %d KiB", open, b.files(), b.status("VmRSS"))
	t.Logf("revoke at the socket: median %v, worst %v; guard revoke: median %v, worst %v",
		socket[len(socket)/2], socket[len(socket)-1], program[len(program)/2], program[len(program)-1])
	if p90 := socket[len(socket)*9/10]; p90 >= maxRevoke {
		t.Errorf("9 of 10 revocations answer within %v, want %v", p90, maxRevoke)
	}
}

// TestTenThousandSessions: so many cost little, one as much as another, and
// nothing once they have ended.
func TestTenThousandSessions(t *testing.T) {
	b := start(t, "sessions_per_uid = 16384\n")
	rss, files := b.status("VmRSS"), b.files()
	halves := [2]time.Duration{}
	var crowds []*crowd
	for i := range halves { // in two halves: the second must not take longer by the first
		began := time.Now()
		c := b.crowd("sessions", b.paths.BrokerSocket, strconv.Itoa(many/2))
		n := c.there()
		halves[i] = time.Since(began)
		crowds = append(crowds, c)
		if n != many/2 {
			t.Fatalf("%d of %d sessions were registered", n, many/2)
		}
	}
	began := time.Now()
	listed := len(b.sessions())
	took := time.Since(began)
	before := b.cpu()
	time.Sleep(5 * time.Second)
	idle := b.cpu() - before
	t.Logf("%d sessions registered in %v and %v, listed in %v; 5 s of doing nothing cost %v; %d files, %d KiB now, %d at most, %d before the first",
		listed, halves[0], halves[1], took, idle, b.files(), b.status("VmRSS"), b.status("VmHWM"), rss)
	if listed != many {
		t.Errorf("status lists %d sessions", listed)
	}
	t.Logf("%d KiB of that are its own, %d of files", b.status("RssAnon"), b.status("RssFile"))
	if peak := b.status("VmHWM"); peak > maxRSS {
		t.Errorf("the broker took %d KiB, at most %d", peak, maxRSS)
	}
	if halves[1] > 3*halves[0] {
		t.Errorf("5,000 sessions more took %v, the first %v", halves[1], halves[0])
	}
	if idle > time.Second {
		t.Errorf("looking after idle sessions takes %v of 5 s", idle)
	}
	for _, c := range crowds {
		c.end()
	}
	eventually(t, "all sessions have ended", func() bool { return len(b.sessions()) == 0 })
	eventually(t, "files are given back", func() bool { return b.files() <= files+16 })
	eventually(t, "memory is given back", func() bool { return b.status("VmRSS") <= rss+maxLeft })
	t.Logf("afterwards: %d files, %d before; %d KiB (%d of them of files), %d before", b.files(), files, b.status("VmRSS"), b.status("RssFile"), rss)
	if n := b.goroutines(); n > 64 {
		t.Errorf("%d goroutines are left", n)
	}
}

// maxLeft is what the broker may keep, in KiB, of 10,000 ended sessions: their
// ids can be resumed for a week, and the store has grown by their records.
const maxLeft = 24 << 10
