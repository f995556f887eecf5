package sdunit

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/testproc"
)

// systemd is a service manager that listens to a Manager.
type systemd struct {
	t      *testing.T
	notify *testproc.Notify
	*Manager
}

func newSystemd(t *testing.T) *systemd {
	t.Helper()
	notify := testproc.ListenNotify(t, "")
	return &systemd{t, notify, &Manager{notify: notify.Path, watchdog: time.Second, inherited: inherited{sockets: map[string]*os.File{}, stored: map[string]*os.File{}}}}
}

// heard returns the next message and the descriptors that came with it.
func (s *systemd) heard() (string, []int) {
	s.t.Helper()
	text, fds := s.notify.Next(10 * time.Second)
	if text == "" {
		s.t.Fatal("nothing was told")
	}
	return text, fds
}

func TestNotify(t *testing.T) {
	s := newSystemd(t)
	for _, tt := range []struct {
		name string
		tell func() error
		want string
	}{
		{"ready", func() error { return s.Ready("2 sessions") }, "READY=1\nSTATUS=2 sessions\n"},
		{"status of two lines", func() error { return s.Ready("one\nREADY=0\ttwo") }, "READY=1\nSTATUS=one READY=0 two\n"},
		{"stopping", s.Stopping, "STOPPING=1\n"},
		{"forget", func() error { return s.Forget("anchor-1-2") }, "FDSTOREREMOVE=1\nFDNAME=anchor-1-2\n"},
		{"reloading", s.Reloading, `RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]*\n`},
	} {
		if err := tt.tell(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got, fds := s.heard(); got != tt.want && !regexp.MustCompile("^"+tt.want+"$").MatchString(got) || len(fds) != 0 {
			t.Errorf("%s: heard %q with %d descriptors, want %q", tt.name, got, len(fds), tt.want)
		}
	}
}

// What is stored comes with the message, and is the very same file.
func TestStore(t *testing.T) {
	s := newSystemd(t)
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := s.Store("anchor-1-2", fd); err != nil {
		t.Fatal(err)
	}
	got, fds := s.heard()
	if got != "FDSTORE=1\nFDNAME=anchor-1-2\n" || len(fds) != 1 {
		t.Fatalf("heard %q with %d descriptors", got, len(fds))
	}
	defer func() { _ = unix.Close(fds[0]) }()
	var a, b unix.Stat_t
	if unix.Fstat(fd, &a) != nil || unix.Fstat(fds[0], &b) != nil || a.Ino != b.Ino || a.Dev != b.Dev {
		t.Error("another file came")
	}
	for _, name := range []string{"", "a:b", "a\nREADY=1", strings.Repeat("x", 256)} {
		if err := s.Store(name, fd); err == nil {
			t.Errorf("stored under %q", name)
		}
	}
}

func TestStoredIsTakenOnceOrDiscarded(t *testing.T) {
	s := newSystemd(t)
	file := func(name string) *os.File {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_ = w.Close()
		s.stored[name] = r
		return r
	}
	a, b := file("a"), file("b")
	if s.Stored("a") != a || s.Stored("a") != nil || s.Stored("none") != nil {
		t.Error("a stored descriptor is taken once")
	}
	if err := s.Discard(); err != nil {
		t.Error(err)
	}
	if got, _ := s.heard(); got != "FDSTOREREMOVE=1\nFDNAME=b\n" {
		t.Errorf("heard %q", got)
	}
	if _, err := b.Stat(); err == nil {
		t.Error("what nobody took is open")
	}
	_ = a.Close()
}

// Without a service manager nothing happens; one that hangs doesn't hang us.
func TestNobodyListens(t *testing.T) {
	var none *Manager
	for _, m := range []*Manager{none, {}} {
		if err := m.Ready("x"); err != nil || m.Socket("/x") != nil || m.Stored("x") != nil || m.Watchdog(2) != nil || m.Discard() != nil {
			t.Errorf("%v: something happened: %v", m, err)
		}
		m.Close()
	}
	s := newSystemd(t)
	var err error
	for range 10_000 {
		if err = s.tell("STATUS=full"); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "STATUS=full") {
		t.Errorf("a queue that nobody reads took everything: %v", err)
	}
}
