package store

import "errors"

// Refusals of ConsumeToken and PutToken. Each of the first three leaves the
// token consumed.
var (
	// ErrTokenUsed: the token was consumed before. Somebody else may have seen
	// it: raise the alarm.
	ErrTokenUsed = errors.New("token was used before")
	// ErrTokenMismatch: the token is bound to something else; see MismatchError.
	ErrTokenMismatch = errors.New("token is bound to something else")
	// ErrTokenExpired: its end had come by the instant that was handed in.
	ErrTokenExpired = errors.New("token has expired")
	// ErrTokenUnknown: no such token, or it was pruned.
	ErrTokenUnknown = errors.New("token is unknown")
	// ErrTokenIncomplete: a field is missing that a token has to be bound to.
	ErrTokenIncomplete = errors.New("token is incomplete")
)

var (
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store is closed")
	// ErrReadOnly: the store was opened by OpenReadOnly.
	ErrReadOnly = errors.New("store is open for reading only")
	// ErrDamaged: the file's content can't be what a broker wrote.
	ErrDamaged = errors.New("store is damaged")
	// ErrLocked: another process holds the file.
	ErrLocked = errors.New("store is in use")
)

// MismatchError says which bound field of a token differs. It is an
// ErrTokenMismatch.
type MismatchError struct{ Field string }

// Error names the field; the values are nobody's business.
func (e *MismatchError) Error() string { return ErrTokenMismatch.Error() + ": " + e.Field + " differs" }

// Is makes errors.Is(err, ErrTokenMismatch) true.
func (e *MismatchError) Is(target error) bool { return target == ErrTokenMismatch }
