package broker

import (
	"context"

	"leaseguard.internal/broker/store"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/passphrase"
)

// openStore opens guard.db. A damaged one is set aside and said, in the log, the
// audit and the status: a guard that doesn't start gets switched off, and the new
// store gives nobody authority.
func (b *Broker) openStore() (aside *store.Aside, err error) {
	path := b.opt.Paths.DB
	if b.store, aside, err = store.OpenOrSetAside(path, b.opt.Clock.Wall()); err != nil {
		return nil, err
	}
	if aside != nil {
		b.opt.Log.Error("the store was damaged; it is set aside and a new one begun", "aside", aside.Path, "error", aside.Cause)
	}
	if b.asides, err = store.Asides(path); err != nil {
		return nil, err
	}
	b.key = b.store.Key()
	secret, err := b.store.Passphrase()
	if err != nil {
		return nil, err
	}
	b.secret.Store(secret != passphrase.Hash{})
	return aside, nil
}

// openAudit continues the audit and holds it against what the store knows of it.
// That this run is known comes before its first record.
func (b *Broker) openAudit(aside *store.Aside) error {
	head, ok, err := b.store.Head()
	if err != nil {
		return err
	}
	var stored *audit.Head
	if ok {
		stored = &head
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	runs, err := b.store.BeginRun(ctx, b.epoch)
	if err != nil {
		return err
	}
	keep := b.settings().config.Audit
	b.audit, err = audit.Open(audit.Options{
		Dir: b.opt.Paths.AuditDir, Clock: b.opt.Clock, Epoch: b.epoch, Keep: keep.Keep, Max: keep.Max,
		Stored: stored, Runs: runs, Mirror: b.listener(),
		OnHead: func(h audit.Head) error { return b.store.PutHead(context.Background(), h) },
	})
	if err != nil {
		return err
	}
	if fault := b.audit.Fault(); fault != "" {
		b.opt.Log.Error("the audit doesn't fit what the store knows of it", "fault", fault)
	}
	if aside != nil {
		b.record(audit.Record{Event: audit.EventBroker, Code: "store_set_aside", Reason: "as " + aside.Path + ": " + aside.Cause.Error()})
	}
	return nil
}

// recordStart writes this run's first record, and then tells the store that
// records of older runs can't be the last any more: by both, store and audit have
// shown that they can be written.
func (b *Broker) recordStart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	if _, err := b.audit.Append(ctx, b.startRecord()); err != nil {
		return err
	}
	return b.store.SettleRun(ctx, b.epoch)
}
