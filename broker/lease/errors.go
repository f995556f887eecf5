package lease

import (
	"errors"
	"fmt"
)

// What Apply refuses. The lease that comes back beside an error is the one to
// keep: a refusal can lower authority.
var (
	// ErrTTL: absent means the maximum; zero, negative, above it or not whole
	// seconds is refused, and the lease is as it was.
	ErrTTL = errors.New("time to live out of range")
	// ErrToken: the token isn't this cycle's. The caller looks whether it was
	// consumed before and then applies Replay. The lease is as it was.
	ErrToken = errors.New("not the token of this cycle")
	// ErrTokenExpired: presented after its 60 seconds. The lease is UNVERIFIED.
	ErrTokenExpired = errors.New("token expired")
	// ErrBinding: what was verified has changed since begin. The token is burnt.
	ErrBinding = errors.New("what was verified has changed since the verification began")
	// ErrGeneration: a number of another launch. The token, if any, is burnt.
	ErrGeneration = errors.New("generation is not the current one")
	// ErrGateUnseen: no gate event of this generation yet. The token is burnt.
	ErrGateUnseen = errors.New("no gate event of this generation has arrived")
	// ErrBusy: a promotion or renewal is being written. Try again.
	ErrBusy = errors.New("a commit of this lease is under way")
)

// TransitionError is an event that the state doesn't know.
type TransitionError struct {
	From  State
	Event string
}

// Error names state and event.
func (e *TransitionError) Error() string {
	return fmt.Sprintf("event %s can't happen to a lease that is %s", e.Event, e.From)
}
