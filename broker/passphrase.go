package broker

import (
	"context"
	"errors"

	"leaseguard.internal/broker/store"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/passphrase"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// What the ways of telling operators apart are called in a status.
const (
	operatorSeparateUID = "separate-uid" // the kernel tells them from sessions
	operatorPassphrase  = "passphrase"   // they know something
	operatorCooperative = "cooperative"  // anybody of the uid who isn't in a session
)

// raise runs a verb that can raise authority: it needs all of an operator's
// proof. What lowers it or only looks never comes here.
func (b *Broker) raise(ctx context.Context, ctl wire.Control, body []byte) wire.Result {
	if werr := b.hopeless(ctl); werr != nil {
		return wire.Result{Error: werr}
	}
	kept, werr := b.provePassphrase(ctx, ctl)
	switch {
	case werr != nil:
		return wire.Result{Error: werr}
	case ctl.Verb == wire.VerbPassphrase:
		return wire.Result{Error: b.changePassphrase(ctx, ctl, kept)}
	}
	return b.grant(ctx, ctl, body)
}

// provePassphrase wants the passphrase, if one is set, and returns the hash that
// it was compared with. The store is asked each time: it is the one place.
func (b *Broker) provePassphrase(ctx context.Context, ctl wire.Control) (passphrase.Hash, *wire.Error) {
	const what, object = "proving", "the operator"
	kept, err := b.store.Passphrase()
	if err != nil { // whether one is needed isn't known
		return passphrase.Hash{}, wireError(verdict.StoreFailed, what, object, err.Error(), "guard broker restart")
	}
	b.secret.Store(kept != passphrase.Hash{})
	if kept == (passphrase.Hash{}) {
		return kept, nil
	}
	if ctl.Passphrase == "" {
		return passphrase.Hash{}, wireError(verdict.PassphraseNeeded, what, object, "a passphrase is set, and none came along", "run the command on a terminal, where guard asks for it")
	}
	err = b.passphrases.Check(ctx, kept, string(ctl.Passphrase))
	var delay *passphrase.DelayError
	switch {
	case err == nil:
		return kept, nil
	case errors.Is(err, passphrase.ErrWrong):
		return passphrase.Hash{}, wireError(verdict.PassphraseWrong, what, object, "the passphrase is not the one that is set", "try again; guard log --code passphrase_wrong shows who else did")
	case errors.As(err, &delay):
		return passphrase.Hash{}, wireError(verdict.BrokerBusy, what, object, err.Error(), "try again then; guard log --code passphrase_wrong shows who tried")
	}
	return passphrase.Hash{}, wireError(verdict.BrokerBusy, what, object, err.Error(), "try again")
}

// changePassphrase puts a new passphrase, or none, in the place of the one that
// was just proved.
func (b *Broker) changePassphrase(ctx context.Context, ctl wire.Control, was passphrase.Hash) *wire.Error {
	const what, object = "changing", "the passphrase"
	var next passphrase.Hash
	code := "passphrase_removed"
	if ctl.NewPassphrase != "" {
		code = "passphrase_set"
		if b.opt.Paths.Mode == paths.System {
			return wireError(verdict.BadRequest, what, object, "in system mode operators are told by their uid, and none is needed", "see identity.operators in guard.toml")
		}
		err := passphrase.Acceptable(string(ctl.NewPassphrase))
		if err != nil {
			return wireError(verdict.BadRequest, what, object, err.Error(), "choose another, of several words")
		}
		if next, err = b.passphrases.Make(ctx, string(ctl.NewPassphrase)); err != nil {
			return wireError(verdict.BrokerBusy, what, object, err.Error(), "try again")
		}
	}
	err := b.store.ReplacePassphrase(ctx, was, next)
	switch {
	case errors.Is(err, store.ErrPassphraseChanged):
		return wireError(verdict.PassphraseWrong, what, object, "somebody else has just changed it", "try again, with the one that holds now")
	case err != nil:
		return wireError(verdict.StoreFailed, what, object, err.Error()+"; it may have been stored or not", "make room for the state directory, then: guard broker restart")
	}
	b.secret.Store(next != passphrase.Hash{})
	b.record(audit.Record{Event: audit.EventBroker, Code: code})
	return nil
}

// operatorProof says how operators are told from sessions. It touches no disk: a
// status has to come also when that hangs.
func (b *Broker) operatorProof() string {
	switch {
	case b.opt.Paths.Mode == paths.System:
		return operatorSeparateUID
	case b.secret.Load():
		return operatorPassphrase
	}
	return operatorCooperative
}
