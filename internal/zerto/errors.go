package zerto

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"leaseguard.internal/internal/verdict"
)

// ErrAnswer is wrapped by errors about an answer that isn't what the API
// promises: not one strict JSON value, too long, or without a required field.
var ErrAnswer = errors.New("the ZVM's answer isn't understood")

// What is wrong with a token's answer; the answer itself is a secret.
var (
	errNoToken  = fmt.Errorf("%w: it has no access_token", ErrAnswer)
	errNoBearer = fmt.Errorf("%w: its token isn't a bearer token", ErrAnswer)
	errNoLife   = fmt.Errorf("%w: its expires_in isn't a number of seconds", ErrAnswer)
)

// Error is a request to the ZVM that failed.
type Error struct {
	Op      string // what was asked, such as `looking up VM "app-01"`
	Status  int    // the HTTP status, 0 when no answer came
	Message string // the ZVM's own words, unquoted
	Err     error  // why there is no usable answer
	Token   bool   // it failed at getting a token, so nothing else was asked
	// Unknown says of an insert that the ZVM may have executed it. Only the
	// tag can tell; the insert must not be repeated.
	Unknown bool
}

// Error returns operation, cause and the ZVM's own words, quoted.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Status != 0 && e.Status != http.StatusOK {
		b.WriteString(": the ZVM answered " + strconv.Itoa(e.Status))
		if e.Message != "" {
			b.WriteString(" " + verdict.Object(e.Message))
		}
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Unauthorized reports whether the ZVM refused the credential: no token for it,
// or a token that was refused after one renewal too.
func (e *Error) Unauthorized() bool {
	return e.Status == http.StatusUnauthorized || e.Token && e.Status >= 400 && e.Status < 500 && !e.Temporary()
}

// Temporary reports whether the same GET may succeed soon: overload, a fault of
// the server, or no answer at all.
func (e *Error) Temporary() bool {
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case 0:
		return e.Err != nil && !errors.Is(e.Err, ErrAnswer) && !errors.Is(e.Err, ErrUntrusted)
	default:
		return false
	}
}
