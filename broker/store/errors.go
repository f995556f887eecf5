package store

import "errors"

// Refusals of ConsumeToken and PutToken. Each of the first three leaves the
// token consumed.
var (
	// ErrTokenUsed says that the token was consumed before. Somebody else may
	// have seen it: raise the alarm.
	ErrTokenUsed = errors.New("token was used before")
	// ErrTokenMismatch is for a token that is bound to something else; see
	// MismatchError.
	ErrTokenMismatch = errors.New("token is bound to something else")
	// ErrTokenExpired says that its end had come by the instant handed in.
	ErrTokenExpired = errors.New("token has expired")
	// ErrTokenUnknown says that there is no such token, or no longer.
	ErrTokenUnknown = errors.New("token is unknown")
	// ErrTokenIncomplete says that a field is missing that a token is bound to.
	ErrTokenIncomplete = errors.New("token is incomplete")
)

var (
	// ErrClosed is for a store that was closed.
	ErrClosed = errors.New("store is closed")
	// ErrReadOnly is for writes to what OpenReadOnly opened.
	ErrReadOnly = errors.New("store is open for reading only")
	// ErrDamaged is for content that no broker can have written.
	ErrDamaged = errors.New("store is damaged")
	// ErrNewer is for a file that a later version of guard has written. It isn't
	// set aside: that version may be back tomorrow.
	ErrNewer = errors.New("store is of a newer version")
	// ErrLocked says that another process holds the file.
	ErrLocked = errors.New("store is in use")
)

// MismatchError says which bound field of a token differs. It is an
// ErrTokenMismatch.
type MismatchError struct{ Field string }

// Error names the field; the values are nobody's business.
func (e *MismatchError) Error() string { return ErrTokenMismatch.Error() + ": " + e.Field + " differs" }

// Is makes errors.Is(err, ErrTokenMismatch) true.
func (e *MismatchError) Is(target error) bool { return target == ErrTokenMismatch }
