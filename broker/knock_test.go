package broker

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/wire"
)

const someday = time.Minute // far longer than any of this takes

// heldDoor is a door of the broker whose looks last until the test lets go.
func (f *fixture) heldDoor() (path string, letGo func(), looking func() int) {
	f.t.Helper()
	path = filepath.Join(f.opt.Paths.RunDir, "held.sock")
	l, err := peer.Listen(path, 0o600)
	f.must(err)
	d, held := newDoor(l, f.placeCaller, f.serveSession), make(chan struct{})
	for range maxLooking {
		d.looking <- struct{}{}
	}
	go func() {
		<-held
		for range maxLooking {
			<-d.looking
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); f.accept(ctx, d) }()
	f.t.Cleanup(func() { cancel(); _ = l.Close(); <-done })
	return path, func() { close(held) }, func() int { return len(d.looking) }
}

func (f *fixture) state(id string) string { return f.sessions.ByID(id).View(f.clock.Now()).State }

// TestKnockUnanswered: when the broker's own knock isn't looked at in time, the
// hosts' events may not be either, and no lease outlives that.
func TestKnockUnanswered(t *testing.T) {
	f := newFixture(t, nil)
	s := f.verified()
	path, letGo, _ := f.heldDoor()
	f.knock(t.Context(), path, 10*time.Millisecond)
	if st := f.state(s.ID); st != "UNVERIFIED" {
		t.Errorf("looks are held, and the lease is %s", st)
	}
	letGo()
	if r := f.approve(s.ID); r.Error != nil {
		t.Fatal(r.Error)
	}
	f.knock(t.Context(), path, someday)
	f.knock(t.Context(), f.opt.Paths.BrokerSocket, someday)
	if st := f.state(s.ID); st != "VERIFIED" {
		t.Errorf("each knock was answered, and the lease is %s", st)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	f.knock(ended, path, someday)
	if st := f.state(s.ID); st != "VERIFIED" {
		t.Errorf("the broker stops, and has lowered a lease to %s", st)
	}
	f.knock(t.Context(), path+".none", someday)
	if st := f.state(s.ID); st != "UNVERIFIED" {
		t.Errorf("nothing can be reached, and the lease is %s", st)
	}
}

// TestKnockUnseen: a knock that is hung up on, as whoever has no descriptor left
// for a look does, is no answer.
func TestKnockUnseen(t *testing.T) {
	f := newFixture(t, nil)
	s := f.verified()
	path := filepath.Join(f.opt.Paths.RunDir, "deaf.sock")
	l, err := net.Listen("unix", path)
	f.must(err)
	defer func() { _ = l.Close() }()
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			_, _ = io.Copy(io.Discard, conn) // up to its end: who closes sooner may be noticed otherwise
			_ = conn.Close()
		}
	}()
	f.knock(t.Context(), path, someday)
	if st := f.state(s.ID); st != "UNVERIFIED" {
		t.Errorf("nobody has seen the knock, and the lease is %s", st)
	}
}

// TestKnocksWhileTrusted: the broker knocks by itself.
func TestKnocksWhileTrusted(t *testing.T) {
	ready := make(readyLog)
	f := newFixture(t, nil, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(ready, nil)) })
	<-ready // its own first test needs the socket too
	s := f.verified()
	f.must(os.Rename(f.opt.Paths.BrokerSocket, f.opt.Paths.BrokerSocket+".away"))
	f.eventually("the lease is lowered", func() bool { return f.state(s.ID) == "UNVERIFIED" })
}

// TestKnockTakesNoPlace: a knock is answered however many places are taken.
func TestKnockTakesNoPlace(t *testing.T) {
	f := newFixture(t, nil)
	path, letGo, _ := f.heldDoor()
	letGo()
	taken := f.calls.taken()
	f.must(peer.Reach(t.Context(), path))
	if n := f.calls.taken(); n != taken {
		t.Errorf("a knock has taken %d places", n-taken)
	}
}

// TestLastWords: an observer that has ended before it was looked at may have told
// of lost context. What else the dead have sent lowers nothing.
func TestLastWords(t *testing.T) {
	request := func(kind wire.Kind, role wire.Role) string {
		r := wire.Request{Kind: kind, Role: role, Body: []byte(`{}`)}
		if kind == wire.KindEvent {
			r.Host = wire.HostClaude
		} else {
			r.Control, r.Body = []byte("{}"), nil
		}
		return string(wire.AppendRequest(nil, r))
	}
	for name, tt := range map[string]struct{ sends, state string }{
		"an observer's event":       {request(wire.KindEvent, wire.RoleObserve), "UNVERIFIED"},
		"an observer's header":      {request(wire.KindEvent, wire.RoleObserve)[:wire.RequestSize], "UNVERIFIED"},
		"a part of such a header":   {request(wire.KindEvent, wire.RoleObserve)[:wire.RequestSize-1], "VERIFIED"},
		"a call":                    {request(wire.KindEvent, wire.RoleDecide), "VERIFIED"},
		"a control request":         {request(wire.KindControl, wire.RoleNone), "VERIFIED"},
		"what is no request at all": {"0123456789012345678901234567890", "VERIFIED"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			s := f.verified()
			path, letGo, looking := f.heldDoor()
			gate := testproc.New(t).Start()
			gate.Connect(path)
			gate.Write(tt.sends)
			gate.Kill()
			letGo()
			f.must(peer.Reach(t.Context(), path)) // it stands behind the gate
			f.eventually("nobody is looked at", func() bool { return looking() == 0 })
			if st := f.state(s.ID); st != tt.state {
				t.Errorf("the lease is %s, want %s", st, tt.state)
			}
		})
	}
}

// TestUnprovedObservers: an observer of which nobody can tell whose it is may have
// told of lost context, and ends the leases of its user. One that is proved to be
// outside of all sessions told nothing.
func TestUnprovedObservers(t *testing.T) {
	request := func(role wire.Role, event string) string {
		return string(wire.AppendRequest(nil, wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: role,
			Body: []byte(`{"hook_event_name":"` + event + `","session_id":"s","tool_name":"Read","tool_input":{}}`)}))
	}
	observes, decides := request(wire.RoleObserve, "PreCompact"), request(wire.RoleDecide, "PreToolUse")
	below := func(zoo *testproc.Zoo) *testproc.Proc {
		p := zoo.Start()
		for range 64 { // further up than is looked
			p = p.Spawn(false, false)
		}
		return p
	}
	outside := func(zoo *testproc.Zoo) *testproc.Proc {
		parent := zoo.Start()
		p := parent.Spawn(false, true)
		parent.Kill()
		return p
	}
	for name, tt := range map[string]struct {
		who          func(*testproc.Zoo) *testproc.Proc
		sends, state string
	}{
		"too deep to be placed": {below, observes, "UNVERIFIED"},
		"a call from there":     {below, decides, "VERIFIED"},
		"outside":               {outside, observes, "VERIFIED"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			s := f.verified()
			p := tt.who(testproc.New(t))
			p.Connect(f.opt.Paths.BrokerSocket)
			p.Write(tt.sends)
			if answer, err := p.Read(); err != nil {
				t.Fatalf("%q, %v", answer, err)
			}
			if st := f.state(s.ID); st != tt.state {
				t.Errorf("the lease is %s, want %s", st, tt.state)
			}
		})
	}
}

// readyLog is closed when the broker says that it is ready.
type readyLog chan struct{}

func (r readyLog) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("msg=ready")) {
		close(r)
	}
	return len(line), nil
}
