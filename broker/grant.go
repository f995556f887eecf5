package broker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/broker/session"
	"leaseguard.internal/broker/store"
	"leaseguard.internal/broker/token"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// grant runs the verbs that raise authority, one at a time per session. A
// revocation doesn't wait for them: it goes past the lock and wins.
func (b *Broker) grant(ctx context.Context, ctl wire.Control, body []byte) wire.Result {
	s, werr := b.find(ctl)
	if werr != nil {
		return wire.Result{Error: werr}
	}
	set := b.settings()
	arrived := s.Lease(b.opt.Clock.Now()).Lowerings()
	docs, werr := b.documents(ctl, body)
	if werr != nil {
		return wire.Result{Error: werr}
	}
	defer s.Commit()()
	if werr := b.overtaken(ctx, s, ctl, arrived); werr != nil {
		return wire.Result{Error: werr}
	}
	r := b.granting(ctx, s, ctl, token.Bind(set.catalog.Digest(), docs))
	if b.outdated(set) {
		// A reload lowers what is granted by then; this was granted meanwhile.
		b.lower(s, lease.Reloaded, "guard.toml has changed while a grant was written")
		return wire.Result{Error: wireError(verdict.LeaseRevoked, "verifying session", s.ID, lease.Reloaded.String()+" while this request was served", "guard status, then try again")}
	}
	return r
}

// context says what a verification has to read. It gives nobody anything: status
// and guard.toml say the same.
func (b *Broker) context(ctl wire.Control) wire.Result {
	s, werr := b.find(ctl)
	if werr != nil {
		return wire.Result{Error: werr}
	}
	return wire.Result{Context: &wire.Context{Session: s.ID, Generation: s.Generation, Dir: s.Dir, Documents: b.settings().config.Lease.Context}}
}

// hopeless refuses what no passphrase would help, by what status shows to the
// same caller: nobody types one for that.
func (b *Broker) hopeless(ctl wire.Control) *wire.Error {
	if ctl.Verb == wire.VerbPassphrase {
		return nil
	}
	s, werr := b.find(ctl)
	if werr == nil && ctl.Verb == wire.VerbApprove && !s.Lease(b.opt.Clock.Now()).GateSeen() {
		return b.grantError(s, lease.ErrGateUnseen)
	}
	return werr
}

// granting runs the verb itself. The caller holds the session's commit lock.
func (b *Broker) granting(ctx context.Context, s *session.Session, ctl wire.Control, binding lease.Hash) wire.Result {
	switch ctl.Verb {
	case wire.VerbVerify:
		return b.verify(ctx, s, ctl, binding)
	case wire.VerbPromote:
		return b.promoteByToken(ctx, s, ctl, binding)
	case wire.VerbRenew:
		l, err := b.renew(ctx, s, binding, s.Generation)
		return b.granted(s, l, binding, err)
	case wire.VerbApprove:
		return b.approve(ctx, s, ctl, binding)
	default:
		return wire.Result{Error: wireError(verdict.BadRequest, "verifying session", s.ID, "the verb grants nothing", "guard approve "+s.ID)}
	}
}

// overtaken refuses a grant that waited while something was raised or revoked:
// an operator's revocation is the newer word. A token needs no such look, since
// what lowers a lease ends its cycle.
func (b *Broker) overtaken(ctx context.Context, s *session.Session, ctl wire.Control, arrived uint64) *wire.Error {
	if ctl.ClearAlarm {
		b.clearAlarm(ctx, s)
	}
	if alarm := s.Alarm(); alarm != "" {
		return wireError(verdict.AlarmRaised, "verifying session", s.ID, "alarm "+verdict.Object(alarm)+" locks its promotion",
			"look at guard log, then: guard approve "+s.ID+" --clear-alarm")
	}
	if ctl.Verb != wire.VerbPromote && s.Lease(b.opt.Clock.Now()).Lowerings() != arrived {
		return wireError(verdict.LeaseRevoked, "verifying session", s.ID, "its lease was revoked or begun anew while this request waited", "guard status, then try again")
	}
	return nil
}

// documents pairs the described documents with their bytes, and insists that
// they are the ones of the configuration, in its order.
func (b *Broker) documents(ctl wire.Control, body []byte) ([]token.Document, *wire.Error) {
	bad := func(cause string) *wire.Error {
		return wireError(verdict.BadRequest, "reading", "the context documents", cause, "run the command again; after an upgrade: guard broker restart")
	}
	var names []string
	var docs []token.Document
	for _, d := range ctl.Documents {
		if d.Size < 0 || d.Size > len(body) || d.Missing && d.Size != 0 {
			return nil, bad("their sizes don't fit what was sent")
		}
		names = append(names, d.Name)
		docs = append(docs, token.Document{Name: d.Name, Missing: d.Missing, Bytes: body[:d.Size]})
		body = body[d.Size:]
	}
	if len(body) != 0 {
		return nil, bad("more was sent than they describe")
	}
	if !slices.Equal(names, b.settings().config.Lease.Context) {
		return nil, bad("they are not those of lease.context")
	}
	return docs, nil
}

func (b *Broker) verify(ctx context.Context, s *session.Session, ctl wire.Control, binding lease.Hash) wire.Result {
	t, l, err := b.begin(ctx, s, ttlOf(ctl), binding)
	if err != nil {
		return b.granted(s, l, binding, err)
	}
	r := b.granted(s, l, binding, nil)
	r.Grant.Token, r.Grant.TokenInS = t.Text(), int64(lease.TokenLife/time.Second)
	return r
}

func (b *Broker) promoteByToken(ctx context.Context, s *session.Session, ctl wire.Control, binding lease.Hash) wire.Result {
	t, err := token.Parse(ctl.Token)
	if err != nil {
		return b.granted(s, lease.Lease{}, binding, errTokenUnknown)
	}
	generation := ctl.Generation
	if generation == 0 {
		generation = s.Generation
	}
	l, err := b.promote(ctx, s, t.Hash(), binding, generation)
	return b.granted(s, l, binding, err)
}

// approve is begin and promote in one, by an operator. A session whose gate was
// never heard is refused before anything of it is revoked.
func (b *Broker) approve(ctx context.Context, s *session.Session, ctl wire.Control, binding lease.Hash) wire.Result {
	if l := s.Lease(b.opt.Clock.Now()); !l.GateSeen() {
		return b.granted(s, l, binding, lease.ErrGateUnseen)
	}
	t, l, err := b.begin(ctx, s, ttlOf(ctl), binding)
	if err != nil {
		return b.granted(s, l, binding, err)
	}
	l, err = b.promote(ctx, s, t.Hash(), binding, s.Generation)
	if err == nil {
		s.Repin()
	}
	return b.granted(s, l, binding, err)
}

func (b *Broker) granted(s *session.Session, l lease.Lease, binding lease.Hash, err error) wire.Result {
	if err != nil {
		return wire.Result{Error: b.grantError(s, err)}
	}
	left := l.Left(b.opt.Clock.Now())
	return wire.Result{Grant: &wire.Grant{
		Session: s.ID, State: l.State().String(), Generation: s.Generation, Cycle: l.Cycle(),
		ExpiresInS: int64((left + time.Second - 1) / time.Second), Binding: hexOf(binding),
	}}
}

// grantCodes maps what can be refused to its code and its remedy.
var grantCodes = []struct {
	err  error
	code verdict.Code
	next string
}{
	{lease.ErrBinding, verdict.BindingChanged, "look at what changed, then: guard approve SESSION"},
	{lease.ErrGeneration, verdict.GenerationStale, "guard status"},
	{lease.ErrGateUnseen, verdict.GateUnseen, "let the session make one tool call, then approve it again"},
	{lease.ErrTokenExpired, verdict.TokenExpired, "begin again with: guard verify SESSION"},
	{lease.ErrBusy, verdict.BrokerBusy, "try again"},
	{store.ErrTokenUsed, verdict.TokenUsed, "the session lost its lease, since somebody else may have seen the token; begin again with: guard verify SESSION"},
	{store.ErrTokenMismatch, verdict.WrongAnchor, "begin again with: guard verify SESSION"},
	{errTokenUnknown, verdict.TokenUnknown, "begin again with: guard verify SESSION"},
	{errWrongAnchor, verdict.WrongAnchor, "name the session that the token was made for"},
}

func (b *Broker) grantError(s *session.Session, err error) *wire.Error {
	if errors.Is(err, lease.ErrTTL) {
		return wireError(verdict.BadRequest, "verifying session", s.ID, err.Error(), "use whole seconds from 1s up to lease.ttl, which is "+b.settings().config.Lease.TTL.String())
	}
	for _, g := range grantCodes {
		if errors.Is(err, g.err) {
			return wireError(g.code, "verifying session", s.ID, g.err.Error(), g.next)
		}
	}
	var transition *lease.TransitionError
	if errors.As(err, &transition) {
		l := s.Lease(b.opt.Clock.Now())
		code := leaseVerdict("", s, l).Code
		return wireError(code, "verifying session", s.ID, err.Error(), "guard approve "+s.ID)
	}
	return wireError(verdict.StoreFailed, "verifying session", s.ID, err.Error(), "make room for the state directory, then: guard broker restart")
}

// revoke lowers one session or all. It takes no lock that a grant holds.
func (b *Broker) revoke(ctl wire.Control) (wire.Result, []*session.Session) {
	words, why := "", "revoked by an operator"
	if ctl.Reason != "" {
		words = verdict.Object(ctl.Reason)
		why += ": " + words
	}
	targets := b.sessions.All()
	if !ctl.All {
		s, werr := b.find(ctl)
		if werr != nil {
			return wire.Result{Error: werr}, nil
		}
		targets = []*session.Session{s}
	}
	ids := []string{}
	for _, s := range targets {
		s.Explain(words)
		b.lower(s, lease.Revoked, why)
		ids = append(ids, s.ID)
	}
	return wire.Result{Revoked: ids}, targets
}

// warnUnrecorded looks for a moment whether a revocation, which is in force
// already, is on disk, and says so if it isn't.
func (b *Broker) warnUnrecorded(ctx context.Context, r *wire.Result) {
	if r.Error != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	flushed := b.audit.Flush(ctx)
	if err := cmp.Or(b.audit.Err(), b.store.Err(), flushed); err != nil {
		r.Warnings = append(r.Warnings, "revoked in memory, but not durably recorded: "+err.Error())
	}
}
