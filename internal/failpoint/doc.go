// Package failpoint names the places in the code where a crash hurts most, so
// that a test can crash exactly there.
//
// A call such as
//
//	if err := failpoint.Hit("store/before-commit"); err != nil { … }
//
// is an empty function that the compiler removes, unless the program is built
// with the tag "failpoint". Then the variable GUARD_FAILPOINT decides what
// happens at which point, as a list of
//
//	name:action[@n]
//
// separated by commas. The action is kill (SIGKILL to the own process), error
// (Hit returns an error that wraps ErrInjected), panic, or sleep=DURATION. With
// @n the action is taken at the n-th time that the point is reached, and only
// then; without it, each time.
//
// A test that runs the code in its own process uses Watch instead, which exists
// only with the tag.
//
// No released program is built with the tag: Enabled says so.
package failpoint

import "errors"

// ErrInjected is what the error of an "error" action wraps.
var ErrInjected = errors.New("injected by failpoint")
