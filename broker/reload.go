package broker

import (
	"context"
	"errors"
	"reflect"
	"slices"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/broker/policy"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/config"
)

// Loaded is one reading of guard.toml and what was built by it.
type Loaded struct {
	Config      *config.Config
	Checkpoints Checkpoints   // nil: no ZVM is configured
	Policies    policy.Server // nil: no policy server is configured
	Close       func()        // ends both; nil: there is nothing to end
}

// Reload reads guard.toml again and puts it into force as a whole, or not at all:
// then the old one stays, and log, audit and status say why. Whatever was judged
// by the old one is void: if anything in effect has changed, each lease is
// lowered. What only was rotated, such as a secret, costs none.
func (b *Broker) Reload() error {
	b.reload.Lock()
	defer b.reload.Unlock()
	b.notify(b.opt.Manager.Reloading())
	defer func() { b.notify(b.opt.Manager.Ready(b.summary())) }()
	changed, err := b.replaceSettings()
	if err != nil {
		text := err.Error()
		b.refused.Store(&text)
		b.opt.Log.Error("reloading the configuration; the old one stays in force", "error", err)
		b.record(audit.Record{Event: audit.EventBroker, Code: "reload_failed", Reason: text})
		return err
	}
	b.refused.Store(nil)
	b.definitions.Renew()
	why := "guard.toml says the same as before"
	if changed {
		why = "guard.toml has changed"
	}
	b.opt.Log.Info("reloaded the configuration", "changed", changed)
	b.record(audit.Record{Event: audit.EventBroker, Code: "reloaded", Reason: why})
	if changed {
		for _, s := range b.sessions.All() {
			b.lower(s, lease.Reloaded, why)
		}
	}
	return nil
}

// reloads reloads as often as it is asked for.
func (b *Broker) reloads(ctx context.Context) {
	for {
		select {
		case <-b.opt.Hangup:
			_ = b.Reload() // it has said what failed
		case <-ctx.Done():
			return
		}
	}
}

// replaceSettings builds the new settings and swaps them in. They are in force
// before the first lease is lowered, so that none is granted by the old ones
// after that (see outdated).
func (b *Broker) replaceSettings() (changed bool, err error) {
	if b.opt.Reload == nil {
		return false, errors.New("reloading the configuration: this broker was given no file")
	}
	read := b.opt.Clock.Wall()
	loaded, err := b.opt.Reload()
	if err != nil {
		return false, err
	}
	next, err := newSettings(loaded, read)
	if err != nil {
		loaded.close()
		return false, err
	}
	b.sessions.SetLimit(next.config.Limits.SessionsPerUID)
	b.audit.Retain(next.config.Audit.Keep, next.config.Audit.Max)
	if heir, ok := next.server.(interface{ Inherit(policy.Server) }); ok {
		heir.Inherit(b.settings().server) // an approval that is open stays so
	}
	old := b.current.Swap(next)
	b.spawn(old.close)
	return !sameEffect(old.config, next.config), nil
}

func (l Loaded) close() {
	if l.Close != nil {
		l.Close()
	}
}

// sameEffect compares what two files mean, not where in them it stands.
func sameEffect(a, b *config.Config) bool {
	return reflect.DeepEqual(placeless(a), placeless(b))
}

func placeless(c *config.Config) config.Config {
	out := *c
	out.Tools = slices.Clone(c.Tools)
	for i := range out.Tools {
		out.Tools[i].Line = 0
	}
	return out
}

// configError is why the last reload kept the old configuration; "" when it
// didn't.
func (b *Broker) configError() string {
	if why := b.refused.Load(); why != nil {
		return *why
	}
	return ""
}
