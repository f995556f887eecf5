package policy

import (
	"context"

	"leaseguard.internal/gate/dialect"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// Call is what policies are told of one event of a session.
type Call struct {
	Session    string // its id
	Generation uint64
	UID        uint32
	Runtime    string
	Dir        string // the anchor's directory at registration
	Host       wire.Host
	Own        bool // the host itself sent it: only then may it begin a new turn
	Mutator    bool
	Event      dialect.Event
}

// Met is a definition whose matcher fits a call.
type Met struct {
	Source  string // user or project
	Matcher string
	Hash    string // of the definition and what it runs
	// Allows says that the call goes on when the hook fails (onError = "allow").
	Allows bool
	// Trusted: an operator has trusted exactly this. What isn't never runs.
	Trusted bool
	Why     string // of one that isn't, for people
	// Missed: it was trusted when the turn began, and what an operator has trusted in
	// its place isn't in force yet. It denies, also where untrusted ones are skipped.
	Missed bool
	Run    wire.Hook
}

// Hooks knows which enabled definitions a call meets, in the order of the
// configuration. A fault says that there may be more which can't be known: what
// changes something is denied with it. It is asked for every call, and waits for
// nobody.
type Hooks interface {
	Meet(Call) (met []Met, fault error)
}

// Opinion is what the policy server thinks of a call. The zero value has nothing
// to say. Code is verdict.PolicyDenied or verdict.PolicyUnavailable of a denial.
type Opinion struct {
	Denied bool
	Code   verdict.Code
	Cause  string // why, without the server's name
	Next   string
	Result *audit.PolicyResult // nil: it wasn't asked
}

// Server judges calls by asking a policy server. It answers before ctx ends.
type Server interface {
	Judge(context.Context, Call) Opinion
}
