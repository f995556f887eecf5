package broker

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/wire"
)

// announce opens a connection that promises a request and sends none of it.
func (f *fixture) announce(socket string, h wire.Request, body int) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := peer.Dial(ctx, socket, uint32(os.Getuid()))
	f.must(err)
	h.Body = make([]byte, body)
	_, _ = conn.Write(wire.AppendRequest(nil, h)[:wire.RequestSize]) // a full broker may have closed it by now
	f.t.Cleanup(func() { _ = conn.Close() })
}

// TestUnheardObserversRevoke: an event that could have told of lost context, and
// that can't be taken in, ends the lease.
func TestUnheardObserversRevoke(t *testing.T) {
	observe := func(payload string) wire.Request {
		return wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleObserve, Body: []byte(payload)}
	}
	for name, play := range map[string]func(*fixture){
		"no slot": func(f *fixture) {
			f.announce(f.opt.Paths.BrokerSocket, observe(""), 100)
			f.eventually("the slot is taken", func() bool { return f.calls.taken() > 0 })
			f.send(observe(`{"hook_event_name":"PreCompact","session_id":"s"}`))
		},
		"malformed": func(f *fixture) {
			f.send(observe(`{"hook_event_name":"PreCompact","session_id":"s","custom_instructions":"\ud83d"}`))
		},
		"too large": func(f *fixture) {
			f.send(wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleObserve, Flags: wire.FlagOversize})
		},
		"a start of an unknown kind": func(f *fixture) {
			f.send(observe(`{"hook_event_name":"SessionStart","session_id":"s","source":"teleport2027"}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(c *config.Config) { c.Limits.CallsPerSession = 1 })
			s := f.verified()
			play(f)
			if st := f.sessions.ByID(s.ID).View(f.clock.Now()); st.State != "UNVERIFIED" {
				t.Errorf("the lease is still %s", st.State)
			}
		})
	}
}

// TestPromisedBytesHoldNothing: memory is taken as bytes come, not as they are
// announced.
func TestPromisedBytesHoldNothing(t *testing.T) {
	f := newFixture(t, nil)
	f.session()
	for range 24 {
		f.announce(f.opt.Paths.BrokerSocket, wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleDecide}, wire.MaxPayload)
	}
	f.eventually("the promises are read", func() bool { return f.calls.taken() >= 24 })
	f.expect(f.ask("Read"), "")
	if held := f.bytes.outside.taken() + f.bytes.small.taken() + f.bytes.large.taken(); held > 24*firstChunk {
		t.Errorf("24 empty promises hold %d bytes", held)
	}
}

// TestSessionsTakeNoOperatorsSlot: however many connections a session opens on
// the operators' socket, theirs stay free.
func TestSessionsTakeNoOperatorsSlot(t *testing.T) {
	f := newFixture(t, nil)
	f.session()
	for range 3 * maxInsidersEach {
		f.announce(f.opt.Paths.OperatorSocket, wire.Request{Kind: wire.KindControl, Control: []byte("{}")}, 0)
	}
	f.eventually("the session has its places", func() bool { return f.insiders.taken() == maxInsidersEach })
	if n := f.people.taken(); n != 0 {
		t.Errorf("a session holds %d of the operators' places", n)
	}
}

// TestRevokePassesWaitingApprovals: an approval that waits while somebody
// revokes, or while an alarm is raised, doesn't come through afterwards.
func TestRevokePassesWaitingApprovals(t *testing.T) {
	for name, meanwhile := range map[string]func(*fixture, wire.Session){
		"revoke": func(f *fixture, _ wire.Session) {
			f.verb(context.Background(), wire.Control{Verb: wire.VerbRevoke, All: true}, nil)
		},
		"alarm": func(f *fixture, _ wire.Session) { f.post("9", "Write", `{}`) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			s := f.verified()
			release := f.sessions.ByID(s.ID).Commit() // as a slow disk holds it
			answer := make(chan wire.Result, 1)
			go func() { answer <- f.approve(s.ID) }()
			f.eventually("the approval waits", func() bool { return len(f.grants.free) == 1 })
			time.Sleep(20 * time.Millisecond) // it has looked at the lease, and stands before the lock
			meanwhile(f, s)
			release()
			if r := <-answer; r.Error == nil {
				t.Fatalf("an approval came through: %+v", r.Grant)
			}
			if r := f.ask("Write"); r.Exit != 2 {
				t.Error("a change passed")
			}
		})
	}
}

// TestRevocationsAreRecordedOneByOne: what a host tells again and again becomes
// counts; what an operator says doesn't.
func TestRevocationsAreRecordedOneByOne(t *testing.T) {
	f := newFixture(t, nil)
	s := f.verified()
	compact := wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleObserve, Body: []byte(`{"hook_event_name":"PreCompact","session_id":"s"}`)}
	for range 300 {
		f.send(compact)
	}
	f.verb(context.Background(), wire.Control{Verb: wire.VerbRevoke, Session: s.ID, Reason: "unique words"}, nil)
	f.send(compact)
	f.eventually("the revocation is recorded", func() bool {
		found := false
		f.must(audit.Read(f.opt.Paths.AuditDir, func(r audit.Record, _ []byte) error {
			found = found || strings.Contains(r.Reason, "unique words")
			return nil
		}))
		return found
	})
}

// TestPromotionBySelfCanBeTakenAway: sessions that were launched with recovery
// lose it when the operator configures it away.
func TestPromotionBySelfCanBeTakenAway(t *testing.T) {
	f := newFixture(t, func(c *config.Config) { c.Lease.Promotion = "self" })
	s, werr := f.register(wire.Register{Runtime: "claude", Dir: "/"})
	if werr != nil || f.sessions.ByID(s.ID).Server == "" {
		t.Fatalf("no recovery was given: %v", werr)
	}
	f.stop()
	f.start(nil)
	if f.sessions.ByID(s.ID).Server != "" {
		t.Error("a restored session still may promote itself")
	}
}
