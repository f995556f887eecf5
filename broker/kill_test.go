package broker

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/broker/session"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/wire"
)

func killTools(c *config.Config) { c.Session.OnRevoke = "kill_tools" }

// left is a process that the session has left running.
func (f *fixture) left() *peer.Process {
	f.t.Helper()
	cmd := exec.Command("sleep", "1000")
	f.must(cmd.Start())
	p, err := peer.Open(cmd.Process.Pid)
	f.must(err)
	f.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = p.Close()
	})
	return p
}

// endings are the records of ended trees.
func (f *fixture) endingsOf(id string) (reasons []string) {
	f.t.Helper()
	f.must(audit.Read(f.opt.Paths.AuditDir, func(r audit.Record, _ []byte) error {
		if r.Session == id && r.Code == "tree_ended" {
			reasons = append(reasons, r.Reason)
		}
		return nil
	}))
	return reasons
}

// Every way down from VERIFIED ends what the session left running; a renewal of
// trust doesn't.
func TestKillTools(t *testing.T) {
	tests := []struct {
		name string
		do   func(f *fixture, s wire.Session)
		why  string // empty: it lives on
	}{
		{"revoked", func(f *fixture, s wire.Session) { f.revoke(wire.Control{Session: s.ID}) }, lease.Revoked.String()},
		{"observed", func(f *fixture, _ wire.Session) {
			f.send(wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleObserve,
				Body: []byte(`{"hook_event_name":"PreCompact","session_id":"s","trigger":"auto"}`)})
		}, lease.Observed.String()},
		{"expired", func(f *fixture, _ wire.Session) { f.clock.Advance(lease.MaxTTL) }, lease.Expired.String()},
		{"alarm", func(f *fixture, s wire.Session) {
			f.alarm(&call{session: f.sessions.ByID(s.ID)}, alarmIgnored)
		}, lease.Alarmed.String()},
		{"restart", func(f *fixture, _ wire.Session) { f.stop(); f.start(killTools) }, lease.Restarted.String()},
		{"approved again", func(f *fixture, s wire.Session) {
			if r := f.approve(s.ID); r.Error != nil {
				f.t.Fatal(r.Error)
			}
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, killTools)
			s := f.verified()
			p := f.left()
			tt.do(f, s)
			if tt.why != "" {
				f.eventually("what was left running has ended", func() bool { return !p.Alive() })
				f.eventually("it is recorded", func() bool { return len(f.endingsOf(s.ID)) == 1 })
				if got := f.endingsOf(s.ID)[0]; !strings.HasSuffix(got, "by sweep, after: "+tt.why) {
					t.Errorf("recorded %q", got)
				}
				return
			}
			f.must(f.settledTree(context.Background(), f.sessions.ByID(s.ID)))
			if !p.Alive() {
				t.Error("it was ended")
			}
		})
	}
}

func TestLeaveIsTheDefault(t *testing.T) {
	f := newFixture(t, nil)
	s := f.verified()
	p := f.left()
	f.revoke(wire.Control{Session: s.ID})
	f.must(f.settledTree(context.Background(), f.sessions.ByID(s.ID)))
	if !p.Alive() {
		t.Error("it was ended")
	}
}

// The lease is down before the first process is, and the answer has the counts.
func TestRevokeKill(t *testing.T) {
	f := newFixture(t, nil)
	s := f.verified()
	p := f.left()
	r := f.verb(context.Background(), wire.Control{Verb: wire.VerbRevoke, Session: s.ID, Kill: true}, nil)
	if want := (wire.Ended{Session: s.ID, Fence: "sweep", Killed: 1}); r.Error != nil || len(r.Ended) != 1 || r.Ended[0] != want || len(r.Warnings) > 0 {
		t.Errorf("answer %+v, want %+v", r, want)
	}
	if p.Alive() {
		t.Error("it lives")
	}
	f.eventually("it is recorded", func() bool { return len(f.endingsOf(s.ID)) == 1 })
	var codes []string
	f.must(audit.Read(f.opt.Paths.AuditDir, func(r audit.Record, _ []byte) error {
		if r.Code == "lowered" || r.Code == "tree_ended" {
			codes = append(codes, r.Code)
		}
		return nil
	}))
	if strings.Join(codes, " ") != "lowered tree_ended" {
		t.Errorf("recorded %v", codes)
	}
}

// A process that has children and then becomes the gate of a call hides none of
// them, and is counted while it stays.
func TestKillBelowAGate(t *testing.T) {
	f := newFixture(t, nil)
	registered, werr := f.register(wire.Register{Runtime: "claude", Dir: "/", Command: "test"})
	if werr != nil {
		t.Fatal(werr)
	}
	s := f.sessions.ByID(registered.ID)
	cmd := exec.Command("sh", "-c", "exec 3<&0; sleep 1000 <&- & echo $!; read x <&3")
	in, out := testproc.Piped(f.t, cmd)
	t.Cleanup(func() { _, _, _ = in.Close(), cmd.Process.Kill(), cmd.Wait() })
	var pid int
	_, err := fmt.Fscan(out, &pid)
	f.must(err)
	child, err := peer.Open(pid)
	f.must(err)
	defer func() { _ = child.Close() }()
	gate, err := peer.Open(cmd.Process.Pid)
	f.must(err)
	defer func() { _ = gate.Close() }()
	kill := func(want wire.Ended, warnings int) {
		t.Helper()
		r := f.verb(context.Background(), wire.Control{Verb: wire.VerbRevoke, Session: s.ID, Kill: true}, nil)
		if want.Session, want.Fence = s.ID, "sweep"; r.Error != nil || len(r.Ended) != 1 || r.Ended[0] != want || len(r.Warnings) != warnings {
			t.Errorf("answer %+v, want %+v", r, want)
		}
	}
	answered := s.Calling(gate, nil)
	kill(wire.Ended{Killed: 1, Left: 1}, 1)
	if child.Alive() || !gate.Alive() {
		t.Errorf("the gate lives: %v, what is below it: %v", gate.Alive(), child.Alive())
	}
	answered()
	kill(wire.Ended{Killed: 1}, 0)
	if gate.Alive() {
		t.Error("it lives after its call")
	}
}

// A shell that a host put before its gate passes the answer on, or denies, after
// its call is over: it stays with what it starts, since such a host runs the tool
// whose hook was killed.
func TestKillSparesTheHook(t *testing.T) {
	f := newFixture(t, nil)
	registered, werr := f.register(wire.Register{Runtime: "codex", Dir: "/", Command: "test"})
	if werr != nil {
		t.Fatal(werr)
	}
	s := f.sessions.ByID(registered.ID)
	cmd := exec.Command("sh", "-c", "exec 3<&0; sleep 1000 <&- & echo $!; read x <&3; kill $!")
	in, out := testproc.Piped(f.t, cmd)
	var pid int
	_, err := fmt.Fscan(out, &pid)
	f.must(err)
	below, err := peer.Open(pid)
	f.must(err)
	defer func() { _ = below.Close() }()
	_, path, err := f.sessions.Find(below)
	f.must(err)
	s.Calling(below, path)() // as its gate, which has its answer
	r := f.verb(context.Background(), wire.Control{Verb: wire.VerbRevoke, Session: s.ID, Kill: true}, nil)
	if len(r.Ended) != 1 || r.Ended[0].Killed != 0 || r.Ended[0].Left != 2 || !below.Alive() {
		t.Errorf("answer %+v; what the hook has started lives: %v", r.Ended, below.Alive())
	}
	f.must(in.Close())
	_ = cmd.Wait()
}

// Revoke isn't held up by what kill_tools does after it, and one sweep serves
// both it and --kill.
func TestRevokeDoesNotWait(t *testing.T) {
	f := newFixture(t, killTools)
	s := f.sessions.ByID(f.verified().ID)
	f.left()
	release := f.holdTree(s)
	done := make(chan wire.Result)
	go func() {
		done <- f.verb(context.Background(), wire.Control{Verb: wire.VerbRevoke, Session: s.ID}, nil)
	}()
	if r := <-done; r.Error != nil {
		t.Fatal(r.Error)
	}
	if s.Lease(f.clock.Now()).State() != lease.Unverified {
		t.Error("the lease is not down")
	}
	release()
	f.must(f.settledTree(context.Background(), s))
}

// holdTree makes the session's tree one that is being ended until release.
func (f *fixture) holdTree(s *session.Session) (release func()) {
	held := &ending{done: make(chan struct{})}
	f.endings.mu.Lock()
	f.endings.running[s] = held
	f.endings.mu.Unlock()
	return func() {
		f.endings.mu.Lock()
		delete(f.endings.running, s)
		f.endings.mu.Unlock()
		close(held.done)
		f.endings.mu.Lock()
		f.endings.hunts++
		f.endings.mu.Unlock()
		f.hunt() // what waited for it
	}
}

// Nothing that runs under a new lease is ended for the old one: a grant waits.
func TestGrantWaitsForTheEndOfTheTree(t *testing.T) {
	f := newFixture(t, nil)
	s := f.sessions.ByID(f.verified().ID)
	f.revoke(wire.Control{Session: s.ID})
	release := f.holdTree(s)
	var wait sync.WaitGroup
	var early bool
	wait.Go(func() {
		r := f.approve(s.ID)
		f.endings.mu.Lock()
		early = f.endings.running[s] != nil
		f.endings.mu.Unlock()
		if r.Error != nil || r.Grant.State != "VERIFIED" {
			f.t.Errorf("approving: %+v %v", r.Grant, r.Error)
		}
	})
	f.eventually("the approval has begun", func() bool { return s.Lease(f.clock.Now()).State() == lease.Pending })
	release()
	wait.Wait()
	if early {
		t.Error("it was granted while the tree was being ended")
	}
}

// What was known below an anchor is ended with it, and is let go of otherwise.
func TestKeepTrees(t *testing.T) {
	f := newFixture(t, killTools)
	s := f.sessions.ByID(f.verified().ID)
	p := f.left()
	f.keepTrees([]*session.Session{s})
	kept := f.endings.kept[s]
	if len(kept) == 0 {
		t.Fatal("nothing is kept")
	}
	f.keepTrees([]*session.Session{s})
	if kept[0].Fd() != -1 {
		t.Error("what was kept before is still held")
	}
	if !s.End(f.clock.Now()) {
		t.Fatal("it has ended before")
	}
	f.eventually("what was left running has ended", func() bool { return !p.Alive() })
	f.must(f.settledTree(context.Background(), s))
	f.endings.mu.Lock()
	defer f.endings.mu.Unlock()
	if len(f.endings.kept[s]) != 0 {
		t.Error("it is still kept")
	}
}

// A flood of falls is ended by a few batches, each session once.
func TestEndingsAreShared(t *testing.T) {
	f := newFixture(t, nil)
	s := f.sessions.ByID(f.verified().ID)
	release := f.holdTree(s)
	first := f.endTree(s, "one")
	for range 100 {
		if f.endTree(s, "another") != first {
			t.Fatal("a second ending waits for the same session")
		}
	}
	release()
	select {
	case <-first.done:
	case <-time.After(20 * time.Second):
		t.Fatal("it isn't ended")
	}
}
