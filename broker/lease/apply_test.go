package lease

import (
	"errors"
	"slices"
	"testing"
	"time"

	"leaseguard.internal/internal/clock"
)

const start = clock.Instant(1000 * time.Second)

var (
	tok     = Hash{1}
	other   = Hash{2}
	renewal = Hash{3}
	bound   = Hash{9}
)

func secs(n float64) *time.Duration {
	d := time.Duration(n * float64(time.Second))
	return &d
}

// must applies an event that has to be legal.
func must(t *testing.T, l Lease, ev Event, at clock.Instant) Lease {
	t.Helper()
	next, _, err := Apply(l, ev, at)
	if err != nil {
		t.Fatalf("%s on %s: %v", ev.name(), l.State(), err)
	}
	return next
}

func pending(t *testing.T) Lease {
	t.Helper()
	l := must(t, New(1), GateSeen{}, start)
	return must(t, l, Begin{Max: MaxTTL, Binding: bound, Token: tok}, start)
}

func committing(t *testing.T) Lease {
	t.Helper()
	return must(t, pending(t), Promote{Token: tok, Binding: bound, Generation: 1}, start)
}

func verified(t *testing.T) Lease {
	t.Helper()
	return must(t, committing(t), Promoted{Cycle: 1}, start)
}

func renewing(t *testing.T) Lease {
	t.Helper()
	l := must(t, verified(t), MintRenewal{Token: renewal}, start)
	return must(t, l, Renew{Token: renewal, Binding: bound, Generation: 1}, start)
}

// every is one example of each event, good for the state that takes it.
var every = []Event{
	GateSeen{}, GateLost{}, Begin{Max: MaxTTL, Binding: bound, Token: other}, Promote{Token: tok, Binding: bound, Generation: 1},
	Promoted{Cycle: 1}, PromoteFailed{Cycle: 1}, MintRenewal{Token: other}, Renew{Token: renewal, Binding: bound, Generation: 1},
	Renewed{Cycle: 1}, RenewFailed{Cycle: 1}, Replay{}, Lower{Cause: Revoked}, Generation{Number: 2}, Tick{},
}

// TestTransitions lists the legal pairs; all others must be TransitionErrors
// that leave no authority behind that wasn't there.
func TestTransitions(t *testing.T) {
	always := []string{"gate_seen", "gate_lost", "begin_verification", "replay", "lower", "generation", "tick"}
	states := []struct {
		name  string
		lease func(*testing.T) Lease
		legal map[string]State
	}{
		{"UNVERIFIED", func(*testing.T) Lease { return New(1) }, nil},
		{"PENDING", pending, map[string]State{"promote": Pending}},
		{"PENDING, committing", committing, map[string]State{"promoted": Verified, "promote_failed": Unverified}},
		{"VERIFIED", verified, map[string]State{"mint_renewal": Verified}},
		{"VERIFIED, renewing", renewing, map[string]State{"renewed": Verified, "renew_failed": Unverified}},
	}
	after := map[string]State{"begin_verification": Pending, "replay": Unverified, "lower": Unverified, "generation": Unverified}
	busy := map[string][]string{"PENDING, committing": {"promote"}, "VERIFIED, renewing": {"mint_renewal", "renew"}}
	for _, st := range states {
		for _, ev := range every {
			t.Run(st.name+"/"+ev.name(), func(t *testing.T) {
				l := st.lease(t)
				next, _, err := Apply(l, ev, start)
				want, legal := st.legal[ev.name()]
				if slices.Contains(always, ev.name()) {
					legal = true
					if want = l.State(); after[ev.name()] != Unverified || ev.name() == "replay" || ev.name() == "lower" || ev.name() == "generation" || ev.name() == "gate_lost" {
						want = after[ev.name()]
					}
				}
				switch {
				case legal && (err != nil || next.State() != want):
					t.Fatalf("got %s, %v; want %s", next.State(), err, want)
				case legal:
					return
				case slices.Contains(busy[st.name], ev.name()):
					if !errors.Is(err, ErrBusy) {
						t.Fatalf("got %v, want ErrBusy", err)
					}
				case ev.name() == "renew" && st.name == "VERIFIED":
					if !errors.Is(err, ErrToken) { // no renewal token was minted
						t.Fatalf("got %v, want ErrToken", err)
					}
				default:
					var te *TransitionError
					if !errors.As(err, &te) || te.From != l.State() {
						t.Fatalf("got %v, want a TransitionError from %s", err, l.State())
					}
				}
				if next.State() != l.State() || next.Left(start) != l.Left(start) {
					t.Fatalf("a refused event changed %s to %s", l.State(), next.State())
				}
			})
		}
	}
}

func TestZeroLeaseHasNoAuthority(t *testing.T) {
	var l Lease
	if l.State() != Unverified || l.Left(0) != 0 || l.At(start).State() != Unverified {
		t.Fatal("the zero lease must be UNVERIFIED")
	}
	if _, _, err := Apply(l, Promote{}, 0); err == nil {
		t.Fatal("a zero token promoted a zero lease")
	}
	if _, _, err := Apply(pending(t), Promote{Binding: bound, Generation: 1}, start); !errors.Is(err, ErrToken) {
		t.Fatalf("a zero token: got %v, want ErrToken", err)
	}
}

func TestBeginTTL(t *testing.T) {
	tests := []struct {
		name string
		ttl  *time.Duration
		max  time.Duration
		want time.Duration
	}{
		{"absent is the maximum", nil, MaxTTL, MaxTTL},
		{"absent is the operator's cap", nil, 60 * time.Second, 60 * time.Second},
		{"one second", secs(1), MaxTTL, time.Second},
		{"the maximum", secs(300), MaxTTL, MaxTTL},
		{"above the maximum", secs(301), MaxTTL, 0},
		{"above the operator's cap", secs(61), 60 * time.Second, 0},
		{"a nanosecond above", durationp(MaxTTL + 1), MaxTTL, 0},
		{"zero", secs(0), MaxTTL, 0},
		{"negative", secs(-5), MaxTTL, 0},
		{"not whole seconds", secs(1.5), MaxTTL, 0},
		{"huge", durationp(1<<63 - 1), MaxTTL, 0},
		{"a cap above 300 s is no cap", nil, MaxTTL + time.Second, 0},
		{"a cap of zero", nil, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := verified(t)
			l, _, err := Apply(before, Begin{TTL: tt.ttl, Max: tt.max, Binding: bound, Token: other}, start)
			if tt.want == 0 {
				if !errors.Is(err, ErrTTL) || l != before {
					t.Fatalf("got %v and %s, want ErrTTL and no change", err, l.State())
				}
				return
			}
			l = must(t, l, Promote{Token: other, Binding: bound, Generation: 1}, start)
			l = must(t, l, Promoted{Cycle: l.Cycle()}, start)
			if got := l.Left(start); got != tt.want {
				t.Fatalf("the lease lasts %v, want %v", got, tt.want)
			}
		})
	}
}

func durationp(d time.Duration) *time.Duration { return &d }

func TestPromoteRefusals(t *testing.T) {
	good := Promote{Token: tok, Binding: bound, Generation: 1}
	tests := []struct {
		name  string
		ev    Promote
		at    clock.Instant
		seen  bool
		want  error
		burnt bool
		state State
	}{
		{"good", good, start, true, nil, false, Pending},
		{"another token", Promote{other, bound, 1}, start, true, ErrToken, false, Pending},
		{"another binding", Promote{tok, Hash{7}, 1}, start, true, ErrBinding, true, Unverified},
		{"another generation", Promote{tok, bound, 2}, start, true, ErrGeneration, true, Unverified},
		{"no generation", Promote{tok, bound, 0}, start, true, ErrGeneration, true, Unverified},
		{"gate unseen", good, start, false, ErrGateUnseen, true, Unverified},
		{"a nanosecond before its end", good, start.Add(TokenLife - 1), true, nil, false, Pending},
		{"at its end", good, start.Add(TokenLife), true, ErrTokenExpired, false, Unverified},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := New(1)
			if tt.seen {
				l = must(t, l, GateSeen{}, start)
			}
			l = must(t, l, Begin{Max: MaxTTL, Binding: bound, Token: tok}, start)
			next, effects, err := Apply(l, tt.ev, tt.at)
			if !errors.Is(err, tt.want) || slices.Contains(effects, BurnToken) != tt.burnt || next.State() != tt.state {
				t.Fatalf("got %s, effects %v, %v; want %s, burnt %v, %v", next.State(), effects, err, tt.state, tt.burnt, tt.want)
			}
			if err == nil && !slices.Equal(effects, []Effect{ConsumeToken, RecordGrant}) {
				t.Fatalf("effects %v: the token comes first, then the record", effects)
			}
		})
	}
}

// TestC1_LeaseEndsInBoottime: an Instant counts suspended time, so a jump of
// three hours ends every lease and token.
func TestC1_LeaseEndsInBoottime(t *testing.T) {
	l := verified(t)
	for _, tt := range []struct {
		after time.Duration
		want  State
	}{{0, Verified}, {MaxTTL - 1, Verified}, {MaxTTL, Unverified}, {3 * time.Hour, Unverified}} {
		if got := l.At(start.Add(tt.after)); got.State() != tt.want {
			t.Errorf("after %v: %s, want %s", tt.after, got.State(), tt.want)
		}
	}
	if _, _, err := Apply(l, MintRenewal{Token: renewal}, start.Add(3*time.Hour)); err == nil {
		t.Error("a lease that has ended was renewed")
	}
}

// TestLoweredWhileCommitting: what lowers wins over a commit that is under way.
func TestLoweredWhileCommitting(t *testing.T) {
	for _, ev := range []Event{Lower{Cause: Revoked}, Replay{}, Generation{Number: 2}, Begin{Max: MaxTTL, Token: other, Binding: bound}} {
		t.Run(ev.name(), func(t *testing.T) {
			l := must(t, committing(t), ev, start)
			next, _, err := Apply(l, Promoted{Cycle: 1}, start)
			if err == nil || next.State() == Verified {
				t.Fatalf("got %s, %v: a promotion survived %s", next.State(), err, ev.name())
			}
			l = must(t, renewing(t), ev, start)
			if next, _, err = Apply(l, Renewed{Cycle: 1}, start); err == nil || next.State() == Verified {
				t.Fatalf("got %s, %v: a renewal survived %s", next.State(), err, ev.name())
			}
		})
	}
}

func TestRenew(t *testing.T) {
	later := start.Add(200 * time.Second)
	minted := must(t, verified(t), MintRenewal{Token: renewal}, later)
	good := Renew{Token: renewal, Binding: bound, Generation: 1}
	l := must(t, minted, good, later)
	l = must(t, l, Renewed{Cycle: 1}, later)
	if l.Left(later) != MaxTTL || l.Lowerings() != minted.Lowerings() {
		t.Fatalf("left %v, lowerings %d: want a whole TTL and no lowering", l.Left(later), l.Lowerings())
	}
	if _, _, err := Apply(l, good, later); !errors.Is(err, ErrToken) {
		t.Errorf("a renewal token twice: %v", err)
	}
	if next, effects, err := Apply(minted, Renew{renewal, Hash{7}, 1}, later); !errors.Is(err, ErrBinding) || next.State() != Unverified || !slices.Contains(effects, BurnToken) {
		t.Errorf("another binding: %s, %v, %v", next.State(), effects, err)
	}
	if _, _, err := Apply(minted, Renew{tok, bound, 1}, later); !errors.Is(err, ErrToken) {
		t.Errorf("a promotion token as renewal: %v", err)
	}
	if _, _, err := Apply(minted, good, later.Add(TokenLife)); !errors.Is(err, ErrTokenExpired) {
		t.Errorf("a renewal token after its life: %v", err)
	}
}

// TestV2_SupersededToken: a token of an earlier cycle or generation opens nothing.
func TestV2_SupersededToken(t *testing.T) {
	l := must(t, pending(t), Begin{Max: MaxTTL, Binding: bound, Token: other}, start)
	if _, _, err := Apply(l, Promote{tok, bound, 1}, start); !errors.Is(err, ErrToken) {
		t.Errorf("the first cycle's token in the second: %v", err)
	}
	if _, _, err := Apply(l, Promote{other, bound, 2}, start); !errors.Is(err, ErrGeneration) {
		t.Errorf("the right token with another generation: %v", err)
	}
}

func TestGeneration(t *testing.T) {
	l := must(t, verified(t), Generation{Number: 2}, start)
	if l.State() != Unverified || l.GateSeen() || l.Generation() != 2 {
		t.Fatalf("got %s, gate seen %v, generation %d", l.State(), l.GateSeen(), l.Generation())
	}
	for _, n := range []uint64{0, 1, 2} {
		if next, _, err := Apply(l, Generation{Number: n}, start); !errors.Is(err, ErrGeneration) || next != l {
			t.Errorf("generation %d after 2: %v", n, err)
		}
	}
}
