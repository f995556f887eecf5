package broker

import (
	"context"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/internal/wire"
)

// approveFor approves for so many seconds.
func (f *fixture) approveFor(id string, seconds int64) wire.Result {
	return f.verb(context.Background(), wire.Control{Verb: wire.VerbApprove, Session: id, TTLSeconds: &seconds, Documents: noDocuments}, nil)
}

// TestC1_NoClockStretchesALease: the wall clock is stepped, the machine is
// suspended, CLOCK_BOOTTIME jumps forth and back. A lease never outlives the time
// that it was given, and no step of the wall clock ends or prolongs it.
func TestC1_NoClockStretchesALease(t *testing.T) {
	f := newFixture(t, nil)
	s := f.session()
	f.expect(f.ask("Read"), "")
	rapid.Check(t, func(rt *rapid.T) {
		ttl := time.Duration(rapid.Int64Range(1, 300).Draw(rt, "ttl")) * time.Second
		if r := f.approveFor(s.ID, int64(ttl/time.Second)); r.Error != nil {
			rt.Fatal(r.Error)
		}
		for passed := time.Duration(0); ; {
			state := f.sessions.ByID(s.ID).Lease(f.opt.Clock.Now()).State()
			if verified := state == lease.Verified; verified != (passed < ttl) {
				rt.Fatalf("%s after %s of %s", state, passed, ttl)
			}
			if passed >= ttl {
				return
			}
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0:
				f.clock.StepWall(time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(rt, "wall")))
			case 1: // a process restored, or moved to another time namespace
				f.clock.Advance(-time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(rt, "back")))
			case 2: // suspended
				by := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(rt, "suspended"))
				f.clock.Advance(by)
				passed += by
			default:
				by := time.Duration(rapid.Int64Range(1, int64(ttl)/2+1).Draw(rt, "by"))
				f.clock.Advance(by)
				passed += by
			}
		}
	})
	f.expect(f.ask("Write"), "lease_expired")
}

// TestC1_Edges: the last nanosecond passes, the next one doesn't.
func TestC1_Edges(t *testing.T) {
	f := newFixture(t, nil)
	s := f.session()
	f.expect(f.ask("Read"), "")
	for _, seconds := range []int64{1, 299, 300} {
		if r := f.approveFor(s.ID, seconds); r.Error != nil || r.Grant.ExpiresInS != seconds {
			t.Fatalf("%d s: %+v", seconds, r)
		}
		f.clock.Advance(time.Duration(seconds)*time.Second - 1)
		f.expect(f.ask("Write"), "")
		f.clock.Advance(1)
		f.expect(f.ask("Write"), "lease_expired")
	}
	for _, seconds := range []int64{0, -1, 301, math.MaxInt64, math.MinInt64, math.MaxInt64 / int64(time.Second)} {
		if r := f.approveFor(s.ID, seconds); r.Error == nil {
			t.Errorf("%d s were granted", seconds)
		}
		f.expect(f.ask("Write"), "lease_expired")
	}
}

// TestC1_SuspendedBetweenTokenAndUse: a token ends by the same clock.
func TestC1_SuspendedBetweenTokenAndUse(t *testing.T) {
	f := newFixture(t, nil)
	s := f.verified()
	token := f.token(s.ID)
	f.clock.StepWall(-time.Hour)
	f.clock.Advance(lease.TokenLife)
	if r := f.promoteBy(s.ID, token); r.Error == nil || r.Error.Code != "token_expired" {
		t.Errorf("after its time: %+v", r)
	}
	f.expect(f.ask("Write"), "lease_unverified")
}
