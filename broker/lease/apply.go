package lease

import (
	"time"

	"leaseguard.internal/internal/clock"
)

// Apply returns the lease after ev at now, and what has to be done about it.
// The returned lease counts in any case, also beside an error.
func Apply(l Lease, ev Event, now clock.Instant) (Lease, []Effect, error) {
	before := l.lowerings
	var lapsed Hash // the token whose time ended with this look at the clock
	if l.state == Pending && l.At(now).state != Pending {
		lapsed = l.promote.hash
	}
	l = l.At(now)
	next, effects, err := apply(l, ev, now, lapsed)
	if l.lowerings != before && len(effects) == 0 {
		effects = []Effect{RecordChange} // an end that had come was applied on the way
	}
	return next, effects, err
}

func apply(l Lease, ev Event, now clock.Instant, lapsed Hash) (Lease, []Effect, error) {
	switch e := ev.(type) {
	case Tick:
		return l, nil, nil
	case GateSeen:
		l.gateSeen = true
		return l, nil, nil
	case GateLost:
		l = l.lowered(Parted)
		l.gateSeen = false
		return l, []Effect{RecordChange}, nil
	case Begin:
		return begin(l, e, now)
	case Promote:
		return promote(l, e, lapsed)
	case Promoted:
		return promoted(l, e, now)
	case PromoteFailed:
		if l.state != Pending || !l.promote.committing || l.cycle != e.Cycle {
			return l, nil, &TransitionError{l.state, ev.name()}
		}
		return l.lowered(PromotionFailed), []Effect{RecordChange}, nil
	case MintRenewal:
		return mintRenewal(l, e, now)
	case Renew:
		return renew(l, e, now)
	case Renewed:
		return renewed(l, e, now)
	case RenewFailed:
		if l.state != Verified || !l.renew.committing || l.cycle != e.Cycle {
			return l, nil, &TransitionError{l.state, ev.name()}
		}
		return l.lowered(PromotionFailed), []Effect{RecordChange}, nil
	case Replay:
		return l.lowered(Replayed), []Effect{RaiseAlarm}, nil
	case Lower:
		return l.lowered(e.Cause), []Effect{RecordChange}, nil
	case Generation:
		return generation(l, e)
	}
	return l.lowered(PromotionFailed), []Effect{RecordChange}, &TransitionError{l.state, "unknown"}
}

func begin(l Lease, e Begin, now clock.Instant) (Lease, []Effect, error) {
	ttl, err := chooseTTL(e.TTL, e.Max)
	if err != nil {
		return l, nil, err
	}
	if e.Token == (Hash{}) {
		return l, nil, ErrToken
	}
	l = l.lowered(Begun)
	l.state = Pending
	l.cycle++
	l.binding, l.ttl = e.Binding, ttl
	l.promote = token{hash: e.Token, expires: now.Add(TokenLife)}
	return l, []Effect{StoreToken, RecordChange}, nil
}

func chooseTTL(want *time.Duration, limit time.Duration) (time.Duration, error) {
	if limit <= 0 || limit > MaxTTL || limit%time.Second != 0 {
		return 0, ErrTTL
	}
	if want == nil {
		return limit, nil
	}
	if *want <= 0 || *want > limit || *want%time.Second != 0 {
		return 0, ErrTTL
	}
	return *want, nil
}

func promote(l Lease, e Promote, lapsed Hash) (Lease, []Effect, error) {
	if lapsed != (Hash{}) && e.Token == lapsed {
		return l, []Effect{RecordChange}, ErrTokenExpired
	}
	if l.state != Pending {
		return l, nil, &TransitionError{l.state, e.name()}
	}
	if l.promote.committing {
		return l, nil, ErrBusy
	}
	if e.Token == (Hash{}) || e.Token != l.promote.hash {
		return l, nil, ErrToken
	}
	// From here on the right token was shown: whatever fails burns it.
	burn := func(err error) (Lease, []Effect, error) {
		return l.lowered(PromotionFailed), []Effect{BurnToken, RecordChange}, err
	}
	switch {
	case e.Generation != l.generation:
		return burn(ErrGeneration)
	case e.Binding != l.binding:
		return burn(ErrBinding)
	case !l.gateSeen:
		return burn(ErrGateUnseen)
	}
	l.promote.committing = true
	return l, []Effect{ConsumeToken, RecordGrant}, nil
}

func promoted(l Lease, e Promoted, now clock.Instant) (Lease, []Effect, error) {
	if l.state != Pending || !l.promote.committing || l.cycle != e.Cycle {
		return l, nil, &TransitionError{l.state, e.name()}
	}
	l.state, l.cause = Verified, Never
	l.promote = token{}
	l.end = now.Add(min(l.ttl, MaxTTL))
	return l, nil, nil
}

func mintRenewal(l Lease, e MintRenewal, now clock.Instant) (Lease, []Effect, error) {
	if l.state != Verified {
		return l, nil, &TransitionError{l.state, e.name()}
	}
	if l.renew.committing {
		return l, nil, ErrBusy
	}
	if e.Token == (Hash{}) {
		return l, nil, ErrToken
	}
	l.renew = token{hash: e.Token, expires: now.Add(TokenLife)}
	return l, []Effect{StoreToken}, nil
}

func renew(l Lease, e Renew, now clock.Instant) (Lease, []Effect, error) {
	if l.state != Verified {
		return l, nil, &TransitionError{l.state, e.name()}
	}
	if l.renew.committing {
		return l, nil, ErrBusy
	}
	if l.renew.zero() || e.Token != l.renew.hash {
		return l, nil, ErrToken
	}
	switch {
	case now >= l.renew.expires:
		l.renew = token{}
		return l, []Effect{BurnToken}, ErrTokenExpired
	case e.Generation != l.generation:
		l.renew = token{}
		return l, []Effect{BurnToken}, ErrGeneration
	case e.Binding != l.binding:
		return l.lowered(PromotionFailed), []Effect{BurnToken, RecordChange}, ErrBinding
	}
	l.renew.committing = true
	return l, []Effect{ConsumeToken, RecordGrant}, nil
}

func renewed(l Lease, e Renewed, now clock.Instant) (Lease, []Effect, error) {
	if l.state != Verified || !l.renew.committing || l.cycle != e.Cycle {
		return l, nil, &TransitionError{l.state, e.name()}
	}
	l.renew = token{}
	l.end = now.Add(min(l.ttl, MaxTTL))
	return l, nil, nil
}

func generation(l Lease, e Generation) (Lease, []Effect, error) {
	if e.Number <= l.generation {
		return l, nil, ErrGeneration
	}
	l = l.lowered(Replaced)
	l.generation, l.gateSeen = e.Number, false
	return l, []Effect{RecordChange}, nil
}
