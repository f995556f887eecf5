// Package lease is the pure machine behind a session's authority: a state, an
// event and an instant give the next state, the effects that have to be carried
// out, and an error. It does no I/O, reads no clock and takes no lock.
//
// A lease is UNVERIFIED, PENDING_VERIFICATION or VERIFIED. Authority is raised
// in two steps: Promote asks for the token's consumption and for its record,
// and only the event Promoted, which says that both are durable, makes the
// lease VERIFIED. Everything that lowers authority takes effect in one step.
//
// The zero Lease is UNVERIFIED and promises nothing.
package lease

import (
	"time"

	"leaseguard.internal/internal/clock"
)

// MaxTTL is the longest that a lease can last. No configuration raises it.
const MaxTTL = 300 * time.Second

// TokenLife is how long a promotion token can be used after it was minted.
const TokenLife = 60 * time.Second

// State is what a lease is. The zero value is Unverified.
type State uint8

// The states.
const (
	Unverified State = iota
	Pending
	Verified
)

// String returns the state's public name.
func (s State) String() string {
	switch s {
	case Pending:
		return "PENDING_VERIFICATION"
	case Verified:
		return "VERIFIED"
	default:
		return "UNVERIFIED"
	}
}

// Hash is the SHA-256 of a token, or of what was verified.
type Hash [32]byte

// Cause says why a lease is not VERIFIED. The zero value is Never: nobody has
// verified it yet.
type Cause uint8

// The causes.
const (
	Never Cause = iota
	Begun
	Expired
	TokenLapsed
	PromotionFailed
	Revoked
	Observed
	Replaced
	AnchorGone
	Restarted
	Replayed
	Alarmed
	Reloaded
	Parted
)

var causeNames = [...]string{
	Never: "never verified", Begun: "a verification has begun", Expired: "its time is over",
	TokenLapsed: "its token was not used in time", PromotionFailed: "its promotion failed",
	Revoked: "an operator revoked it", Observed: "its context may be lost: the host told so, or could not be heard",
	Replaced: "a new generation began", AnchorGone: "the session has ended",
	Restarted: "the broker restarted", Replayed: "a used token was presented again", Alarmed: "an alarm was raised",
	Reloaded: "the configuration has changed", Parted: "the host has taken down what asks the gate",
}

// String returns the cause for people.
func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return "unknown cause"
}

// token is a token that has been minted and not yet used.
type token struct {
	hash       Hash
	expires    clock.Instant
	committing bool // presented in time; its consumption is being written
}

func (t token) zero() bool { return t.hash == Hash{} }

// Lease is one session's authority. It is a value: Apply returns the next one.
type Lease struct {
	state      State
	generation uint64
	cycle      uint64
	gateSeen   bool
	binding    Hash
	ttl        time.Duration
	end        clock.Instant
	promote    token
	renew      token
	lowerings  uint64
	cause      Cause
}

// New returns the UNVERIFIED lease of a session's generation.
func New(generation uint64) Lease { return Lease{generation: generation} }

// At returns the lease as it stands at now: an end that has come is applied, so
// that no reader can take a lease for longer than it lasts.
func (l Lease) At(now clock.Instant) Lease {
	switch {
	case l.state == Verified && now >= l.end:
		return l.lowered(Expired)
	case l.state == Pending && !l.promote.committing && now >= l.promote.expires:
		return l.lowered(TokenLapsed)
	}
	return l
}

// lowered is the one way down: no authority, no token, and a counter that a
// decision in flight compares.
func (l Lease) lowered(c Cause) Lease {
	l.state, l.cause = Unverified, c
	l.promote, l.renew = token{}, token{}
	l.end, l.ttl, l.binding = 0, 0, Hash{}
	l.lowerings++
	return l
}

// State returns the state that the last event left.
func (l Lease) State() State { return l.state }

// Generation counts the launches under the session's id.
func (l Lease) Generation() uint64 { return l.generation }

// Cycle counts the attempts to verify in this generation and those before.
func (l Lease) Cycle() uint64 { return l.cycle }

// GateSeen says whether the host's gate has been heard in this generation.
func (l Lease) GateSeen() bool { return l.gateSeen }

// Cause says why the lease is not VERIFIED.
func (l Lease) Cause() Cause { return l.cause }

// Binding is the digest of what the current cycle verifies or has verified.
func (l Lease) Binding() Hash { return l.binding }

// Lowerings counts the events that lowered authority. A renewal doesn't raise
// it: a decision that began under one count may end under the same only.
func (l Lease) Lowerings() uint64 { return l.lowerings }

// Left is the time until the lease's end, zero unless it is VERIFIED at now.
func (l Lease) Left(now clock.Instant) time.Duration {
	if l.state != Verified || now >= l.end {
		return 0
	}
	return l.end.Sub(now)
}
