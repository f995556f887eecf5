// Package runtime knows how each agent program is started so that it asks the
// gate before every tool call: where its native executable is, which of its
// options would silence the gate, what of the environment would, and with which
// settings the gate is installed.
//
// Everything here is a function of what it is given: files that are read and
// text that is returned. Nothing is started and nobody is asked; the launcher
// does that, and proves the outcome with the client itself. So a mistake here
// ends in a launch that is refused, not in a client without a gate.
//
// What it doesn't protect from: a user who starts the client without the
// launcher, and whoever may write the client's file.
package runtime

import (
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// refuse is the end of a launch: one sentence that names the thing and the
// command that helps.
func refuse(code verdict.Code, what, object, cause, next string) error {
	return &wire.Error{Code: string(code), Message: verdict.Reason(code, what, verdict.Object(object), cause, next)}
}
