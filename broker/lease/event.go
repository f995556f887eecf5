package lease

import (
	"fmt"
	"time"
)

// Event is something that happens to a lease. The types below are all there are.
type Event interface{ name() string }

type (
	// GateSeen says that the host's gate spoke for this generation.
	GateSeen struct{}
	// GateLost says that the host has taken down what asks its gate. Whether it
	// sets it up again, only another GateSeen can tell.
	GateLost struct{}

	// Begin starts a cycle. It revokes lease and tokens first. A nil TTL means
	// the longest allowed, Max.
	Begin struct {
		TTL     *time.Duration
		Max     time.Duration // the operator's cap; never above MaxTTL
		Binding Hash
		Token   Hash
	}

	// Promote presents a token. Its effects must be durable before Promoted.
	Promote struct {
		Token      Hash
		Binding    Hash
		Generation uint64
	}
	// Promoted says that the effects of Promote in this cycle are on disk.
	Promoted struct{ Cycle uint64 }
	// PromoteFailed says that an effect of Promote in this cycle failed or is unknown.
	PromoteFailed struct{ Cycle uint64 }

	// MintRenewal gives a VERIFIED lease a renewal token.
	MintRenewal struct{ Token Hash }
	// Renew presents the renewal token.
	Renew struct {
		Token      Hash
		Binding    Hash
		Generation uint64
	}
	// Renewed says that the effects of Renew in this cycle are on disk.
	Renewed struct{ Cycle uint64 }
	// RenewFailed says that an effect of Renew in this cycle failed or is unknown.
	RenewFailed struct{ Cycle uint64 }

	// Replay says that somebody presented a token that was consumed before.
	Replay struct{}
	// Lower takes all authority away.
	Lower struct{ Cause Cause }
	// Generation begins a new launch under the session's id.
	Generation struct{ Number uint64 }
	// Tick applies an end that has come; it is never needed for safety.
	Tick struct{}
)

func (GateSeen) name() string      { return "gate_seen" }
func (GateLost) name() string      { return "gate_lost" }
func (Begin) name() string         { return "begin_verification" }
func (Promote) name() string       { return "promote" }
func (Promoted) name() string      { return "promoted" }
func (PromoteFailed) name() string { return "promote_failed" }
func (MintRenewal) name() string   { return "mint_renewal" }
func (Renew) name() string         { return "renew" }
func (Renewed) name() string       { return "renewed" }
func (RenewFailed) name() string   { return "renew_failed" }
func (Replay) name() string        { return "replay" }
func (Lower) name() string         { return "lower" }
func (Generation) name() string    { return "generation" }
func (Tick) name() string          { return "tick" }

// Effect is something the caller must carry out, in the order given.
type Effect uint8

// The effects. Those of Promote and Renew must be durable before the event that
// completes them; the others may follow at leisure.
const (
	StoreToken   Effect = iota + 1 // write the minted token's hash
	ConsumeToken                   // compare-and-set minted to consumed
	RecordGrant                    // write the audit record, durably
	BurnToken                      // mark a token consumed that a failed attempt presented
	RecordChange                   // write an audit record of what was lowered or begun
	RaiseAlarm                     // write an alarm
)

var effectNames = [...]string{
	StoreToken: "store_token", ConsumeToken: "consume_token", RecordGrant: "record_grant",
	BurnToken: "burn_token", RecordChange: "record_change", RaiseAlarm: "raise_alarm",
}

// String returns the effect's name for tests and logs.
func (e Effect) String() string {
	if int(e) < len(effectNames) {
		return effectNames[e]
	}
	return fmt.Sprintf("effect(%d)", uint8(e))
}
