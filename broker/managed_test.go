package broker

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/sdunit"
	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// systemd hears what a broker tells its service manager.
type systemd struct {
	t *testing.T
	*testproc.Notify
}

// manage makes a service manager, announced as systemd does.
func manage(t *testing.T, env ...string) (*systemd, *sdunit.Manager) {
	t.Helper()
	notify := testproc.ListenNotify(t, "")
	t.Setenv("NOTIFY_SOCKET", notify.Path)
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	m, err := sdunit.Open()
	if err != nil {
		t.Fatal(err)
	}
	return &systemd{t, notify}, m
}

// await returns the next message that begins so.
func (s *systemd) await(prefix string) (string, []int) {
	s.t.Helper()
	for {
		text, fds := s.Next(20 * time.Second)
		if text == "" {
			s.t.Fatalf("the broker never says %s", prefix)
		}
		if strings.HasPrefix(text, prefix) {
			return text, fds
		}
	}
}

// Ready comes after all of it works; what follows tells of the end.
func TestNotifiesReadyAndStopping(t *testing.T) {
	s, m := manage(t)
	f := newFixture(t, nil, func(o *Options) { o.Manager = m })
	s.await("READY=1\nSTATUS=0 sessions")
	if h := f.audit.Head(); h.Seq == 0 {
		t.Error("ready before the first record was on disk")
	}
	f.stop()
	s.await("STOPPING=1")
}

// A disk that fails at the start is no readiness: the service manager begins anew.
func TestNotReadyWithoutADisk(t *testing.T) {
	s, m := manage(t)
	f := newFixture(t, nil)
	f.stop()
	opt := f.opt
	opt.Manager = m
	b, err := Start(opt)
	f.must(err)
	f.must(b.audit.Close(t.Context())) // as after a write that failed, nothing can be written
	if err := b.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "recording the start") {
		t.Errorf("a broker that can't write ran: %v", err)
	}
	for {
		text, _ := s.Next(100 * time.Millisecond)
		if text == "" {
			break
		}
		if strings.HasPrefix(text, "READY") {
			t.Error("ready without a disk")
		}
	}
}

// Each accept loop has to come round for a sign of life: while one hangs there is
// none, although everything else goes on.
func TestWatchdogStopsWithAStuckLoop(t *testing.T) {
	s, m := manage(t, "WATCHDOG_USEC=400000")
	f := newFixture(t, nil, func(o *Options) { o.Manager = m })
	s.await("WATCHDOG=1")
	s.await("WATCHDOG=1") // without any work

	f.people.mu.Lock() // who connects to operator.sock stands at the door from here on
	var conns []net.Conn
	for range maxLooking + 1 {
		conn, err := peer.Dial(t.Context(), f.opt.Paths.OperatorSocket, f.opt.UID)
		f.must(err)
		conns = append(conns, conn)
	}
	silent := false
	for range 50 { // some signs may be on their way
		if text, _ := s.Next(1200 * time.Millisecond); text == "" {
			silent = true
			break
		}
	}
	if !silent {
		t.Error("signs of life from a broker of which one loop hangs")
	}
	f.expect(f.ask("Read"), string(verdict.NotRegistered)) // the other one works
	f.people.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
	s.await("WATCHDOG=1")
}

// The service manager holds the anchors' pidfds, from registration to the end.
func TestAnchorsAreKept(t *testing.T) {
	s, m := manage(t)
	f := newFixture(t, nil, func(o *Options) { o.Manager = m })
	s.await("READY=1")
	session := f.session()
	name := "FDNAME=anchor-" + session.ID + "-1"
	text, fds := s.await("FDSTORE=1")
	if !strings.Contains(text, name) || len(fds) != 1 {
		t.Fatalf("heard %q with %d descriptors, want %s and one", text, len(fds), name)
	}
	held := os.NewFile(uintptr(fds[0]), "kept")
	anchor := f.sessions.ByID(session.ID).Anchor
	again, err := peer.Adopt(held, os.Getpid(), anchor.Inode(), anchor.StartTime())
	if err != nil {
		t.Fatalf("what is kept is not the anchor: %v", err)
	}
	_ = again.Close()
	f.exited(f.sessions.ByID(session.ID))
	if text, _ := s.await("FDSTOREREMOVE=1"); !strings.Contains(text, name) {
		t.Errorf("heard %q, want %s", text, name)
	}
}

// A failed reload is in the words that systemctl status shows.
func TestNotifiesReload(t *testing.T) {
	s, m := manage(t)
	c := &file{config: same(nil)}
	f := newFixture(t, nil, func(o *Options) { o.Manager, o.Reload = m, c.load })
	c.zvm = f.zvm
	s.await("READY=1")
	f.must(f.Reload())
	s.await("RELOADING=1\nMONOTONIC_USEC=")
	s.await("READY=1")
	c.err = os.ErrPermission
	if f.Reload() == nil {
		t.Error("reloaded a file that can't be read")
	}
	if text, _ := s.await("READY=1"); !strings.Contains(text, "older one: permission denied") {
		t.Errorf("heard %q", text)
	}
}

// Verdicts come as ever with a journald that is gone or takes nothing, each event
// is in the audit, and what the journal lacks is counted.
func TestD3_Journal(t *testing.T) {
	for name, listens := range map[string]bool{"absent": false, "stopped": true} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "guard-jd-")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.RemoveAll(dir) }()
			path := filepath.Join(dir, "socket")
			if listens { // and never reads
				conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close() }()
			}
			f := newFixture(t, func(c *config.Config) { c.Checkpoint.Unlisted = "deny" }, func(o *Options) { o.Journal = sdunit.JournalAt(path) })
			flood := func() {
				for range 1700 { // more than its queue and ours hold
					f.record(audit.Record{Event: audit.EventBroker, Code: "flood"})
				}
				f.must(f.audit.Flush(t.Context()))
			}
			flood()
			f.verified()                                            // one promotion
			f.expect(f.ask("Write"), "")                            // one checkpoint
			f.expect(f.ask("NoSuch"), string(verdict.ToolUnlisted)) // and one that doesn't pass
			flood()
			f.eventually("what the journal lacks is counted", func() bool { return f.status(nil).Broker.JournalLost > 0 })
			f.stop()
			codes := map[string]int{}
			f.must(audit.Read(f.opt.Paths.AuditDir, func(r audit.Record, _ []byte) error { codes[r.Code]++; return nil }))
			for code, n := range map[string]int{"promote": 1, "checkpoint_confirmed": 1, "tool_unlisted": 1, "flood": 3400} {
				if codes[code] != n {
					t.Errorf("the audit has %d of %s, want %d", codes[code], code, n)
				}
			}
		})
	}
}

// The journal shows what the audit has, and no text of a peer's makes a field.
func TestJournalShowsTheAudit(t *testing.T) {
	e := journalEntry(audit.Record{
		Seq: 7, Event: audit.EventVerdict, Session: "abc", Generation: 2, Verdict: "deny", Code: "lease_revoked", Tool: "x\nGUARD_CODE=pass",
		Reason: "guard: lease_revoked: no\x00\n", Targets: []string{"a", "b"}, Checkpoint: []wire.CheckpointInfo{{ID: "1", Tag: "t", VM: "a", VPG: "v"}},
		CallerPID: 12, DurationUS: 5,
	})
	got := map[string]string{}
	for i := 0; i < len(e.Fields); i += 2 {
		got[e.Fields[i]] = e.Fields[i+1]
	}
	for name, want := range map[string]string{
		"GUARD_SEQ": "7", "GUARD_EVENT": "verdict", "GUARD_SESSION": "abc", "GUARD_GENERATION": "2", "GUARD_VERDICT": "deny", "GUARD_CODE": "lease_revoked",
		"GUARD_TOOL": "x\nGUARD_CODE=pass", "GUARD_TARGETS": "a\nb", "GUARD_CHECKPOINTS": "1 t a v", "GUARD_CALLER_PID": "12", "GUARD_DURATION_US": "5",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if e.Priority != sdunit.Notice || strings.ContainsAny(e.Message, "\n\x00") {
		t.Errorf("priority %d, message %q", e.Priority, e.Message)
	}
	if p := journalEntry(audit.Record{Event: audit.EventAlarm}).Priority; p != sdunit.Alert {
		t.Errorf("an alarm has priority %d", p)
	}
}
