package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/broker/session"
	"leaseguard.internal/broker/store"
	"leaseguard.internal/broker/token"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/failpoint"
	"leaseguard.internal/internal/verdict"
)

// This file is the only writer of leases: it runs events through the machine
// and carries out their effects, in the order that keeps its promises.

// Token purposes in the store.
const (
	purposePromote = "promote"
	purposeRenew   = "renew"
)

// lower takes a session's authority away. It needs no disk, no network and no
// lock that slow work holds; the record follows by itself.
func (b *Broker) lower(s *session.Session, cause lease.Cause, why string) lease.Lease {
	l := b.down(s, lease.Lower{Cause: cause})
	r := b.leaseRecord(s, l, "lowered", why)
	if cause == lease.Observed {
		b.recordOften(r) // a host may tell of the same loss again and again
	} else {
		b.record(r)
	}
	return l
}

// down applies an event that lowers, and is legal in every state, and ends what
// was kept under the lease.
func (b *Broker) down(s *session.Session, ev lease.Event) lease.Lease {
	l, _, _ := s.Apply(ev, b.opt.Clock.Now())
	b.forget(s)
	return l
}

// forget ends the reuse of the session's checkpoints.
func (b *Broker) forget(s *session.Session) {
	if zvm := b.settings().checkpoints; zvm != nil {
		zvm.Forget(s.Key())
	}
}

// begin starts a cycle: it revokes what there was, then mints one token.
func (b *Broker) begin(ctx context.Context, s *session.Session, ttl *time.Duration, binding lease.Hash) (token.Token, lease.Lease, error) {
	t, err := token.Mint(rand.Reader)
	if err != nil {
		return token.Token{}, lease.Lease{}, err
	}
	l, _, err := s.Apply(lease.Begin{TTL: ttl, Max: b.settings().config.Lease.TTL, Binding: binding, Token: t.Hash()}, b.opt.Clock.Now())
	if err != nil {
		return token.Token{}, l, err
	}
	b.forget(s)
	if err := b.putToken(ctx, b.tokenRecord(s, l, t.Hash(), binding, purposePromote)); err != nil {
		l = b.lower(s, lease.PromotionFailed, "the token could not be stored")
		return token.Token{}, l, fmt.Errorf("storing the token's hash: %w", err)
	}
	b.recordLease(s, l, "begin", "")
	return t, l, nil
}

// promote presents a token. VERIFIED follows only after the token's consumption
// and the audit record are on disk, and only if nothing lowered the lease while
// they were written.
func (b *Broker) promote(ctx context.Context, s *session.Session, hash, binding lease.Hash, generation uint64) (lease.Lease, error) {
	l, effects, err := s.Apply(lease.Promote{Token: hash, Binding: binding, Generation: generation}, b.opt.Clock.Now())
	if err != nil {
		return l, b.refusedToken(ctx, s, l, hash, effects, err)
	}
	if err := b.commitGrant(ctx, s, l, b.tokenRecord(s, l, hash, binding, purposePromote), "promote"); err != nil {
		l, _, _ = s.Apply(lease.PromoteFailed{Cycle: l.Cycle()}, b.opt.Clock.Now())
		b.recordLease(s, l, "promote_failed", err.Error())
		return l, err
	}
	l, _, err = s.Apply(lease.Promoted{Cycle: l.Cycle()}, b.opt.Clock.Now())
	if err != nil {
		return l, fmt.Errorf("the lease was lowered while its promotion was written (%s): %w", l.Cause(), err)
	}
	_ = failpoint.Hit("broker/verified") // nothing is left that could fail
	return l, nil
}

// renew mints a renewal token and uses it at once: the same two durable steps
// as a promotion, for an operator who holds a session open.
func (b *Broker) renew(ctx context.Context, s *session.Session, binding lease.Hash, generation uint64) (lease.Lease, error) {
	t, err := token.Mint(rand.Reader)
	if err != nil {
		return lease.Lease{}, err
	}
	l, _, err := s.Apply(lease.MintRenewal{Token: t.Hash()}, b.opt.Clock.Now())
	if err != nil {
		return l, err
	}
	rec := b.tokenRecord(s, l, t.Hash(), binding, purposeRenew)
	if err := b.putToken(ctx, rec); err != nil {
		return b.lower(s, lease.PromotionFailed, "the renewal token could not be stored"), err
	}
	l, effects, err := s.Apply(lease.Renew{Token: t.Hash(), Binding: binding, Generation: generation}, b.opt.Clock.Now())
	if err != nil {
		return l, b.refusedToken(ctx, s, l, t.Hash(), effects, err)
	}
	if err := b.commitGrant(ctx, s, l, rec, "renew"); err != nil {
		l, _, _ = s.Apply(lease.RenewFailed{Cycle: l.Cycle()}, b.opt.Clock.Now())
		b.recordLease(s, l, "renew_failed", err.Error())
		return l, err
	}
	l, _, err = s.Apply(lease.Renewed{Cycle: l.Cycle()}, b.opt.Clock.Now())
	return l, err
}

// commitGrant makes a grant durable: token first, record second. Before that it
// waits for what earlier authority left running to be gone, if that is ended.
func (b *Broker) commitGrant(ctx context.Context, s *session.Session, l lease.Lease, rec store.Token, event string) error {
	if err := failpoint.Hit("broker/promoting"); err != nil {
		return err
	}
	if err := b.settledTree(ctx, s); err != nil {
		return err
	}
	rec.Expires = b.opt.Clock.Now() // the store refuses one that has ended by now
	if _, err := b.store.ConsumeToken(ctx, rec); err != nil {
		return fmt.Errorf("consuming the token: %w", err)
	}
	if err := failpoint.Hit("broker/consumed"); err != nil {
		return err
	}
	r := b.leaseRecord(s, l, event, "")
	r.Receipt = fmt.Sprintf("%x", rec.Binding)
	r.State = lease.Verified.String() // what this record grants, once it is on disk
	if _, err := b.audit.Append(ctx, r); err != nil {
		return fmt.Errorf("recording the grant: %w", err)
	}
	if err := failpoint.Hit("broker/recorded"); err != nil {
		return err
	}
	b.audit.SaveHead()
	return failpoint.Hit("broker/before-verified")
}

func (b *Broker) putToken(ctx context.Context, rec store.Token) error {
	if err := failpoint.Hit("broker/begun"); err != nil {
		return err
	}
	if err := b.store.PutToken(ctx, rec); err != nil {
		return err
	}
	return failpoint.Hit("broker/token-stored")
}

func (b *Broker) tokenRecord(s *session.Session, l lease.Lease, hash, binding lease.Hash, purpose string) store.Token {
	now := b.opt.Clock.Now()
	return store.Token{
		Hash: hash, Session: s.ID, Generation: s.Generation, Cycle: l.Cycle(), Purpose: purpose,
		Binding: binding, Anchor: anchorKey(s), Epoch: b.epoch, Expires: now.Add(lease.TokenLife), Wall: b.opt.Clock.Wall(),
	}
}

// anchorKey is what a token is bound to of the process that it was minted for.
func anchorKey(s *session.Session) string {
	return fmt.Sprintf("%d/%d/%d", s.Anchor.PID(), s.Anchor.Inode(), s.Anchor.StartTime())
}

// refusedToken burns a token that a failed attempt showed, and finds out what
// became of one that isn't this cycle's: a consumed token is an alarm.
func (b *Broker) refusedToken(ctx context.Context, s *session.Session, l lease.Lease, hash lease.Hash, effects []lease.Effect, err error) error {
	for _, e := range effects {
		if e == lease.BurnToken {
			if burnErr := b.store.BurnToken(ctx, hash); burnErr != nil {
				b.opt.Log.Error("burning a token", "session", s.ID, "error", burnErr) // the lease is down and the cycle over all the same
			}
		}
	}
	var transition *lease.TransitionError
	if !errors.Is(err, lease.ErrToken) && !errors.As(err, &transition) {
		b.recordLease(s, l, "promote_refused", err.Error())
		return err
	}
	rec, found, lookErr := b.store.LookupToken(hash)
	switch {
	case lookErr != nil:
		return fmt.Errorf("looking up the token: %w", lookErr)
	case !found:
		b.recordLease(s, l, "promote_refused", "unknown token")
		return errTokenUnknown
	case rec.State == store.Consumed:
		b.replayed(rec)
		return store.ErrTokenUsed
	case rec.Session != s.ID || rec.Anchor != anchorKey(s) && rec.Epoch == b.epoch:
		b.recordLease(s, l, "promote_refused", "a token of another session or anchor")
		return errWrongAnchor
	case rec.Generation != s.Generation:
		return lease.ErrGeneration
	case transition != nil && rec.Cycle == l.Cycle():
		return err // this cycle's own: something lowered the lease since it began
	}
	b.recordLease(s, l, "promote_refused", "a token of an earlier cycle, or one whose time is over")
	return lease.ErrTokenExpired
}

var (
	errTokenUnknown = errors.New("no such token was ever minted")
	errWrongAnchor  = errors.New("the token belongs to another session or process")
)

// replayed answers the use of a consumed token: somebody else may have seen it,
// so the session that it belonged to loses its authority.
func (b *Broker) replayed(rec store.Token) {
	s := b.sessions.ByID(rec.Session)
	if s == nil {
		b.record(audit.Record{Event: audit.EventAlarm, Session: rec.Session, Generation: rec.Generation, Code: string(verdict.TokenUsed)})
		return
	}
	l := b.down(s, lease.Replay{})
	r := b.leaseRecord(s, l, string(verdict.TokenUsed), "a consumed token was presented again")
	r.Event = audit.EventAlarm
	b.record(r)
}
