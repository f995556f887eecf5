package broker

import (
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"leaseguard.internal/broker/session"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// proofLife is how long a client that was proved needs no new proof.
const proofLife = 24 * time.Hour

// maxProofs bounds the memory of proofs.
const maxProofs = 1024

// proofs remembers under which digests a client's gate was heard. It is memory
// alone: a broker that starts anew knows none.
type proofs struct {
	mu    sync.Mutex
	until map[proved]clock.Instant
}

// proved is what was proved, and to whom: a digest that another user's launcher
// has made up proves nothing.
type proved struct {
	uid    uint32
	digest string
}

func newProofs() *proofs { return &proofs{until: map[proved]clock.Instant{}} }

func (p *proofs) fresh(what proved, now clock.Instant) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now < p.until[what]
}

// of lists the digests of a user's proofs that are still fresh.
func (p *proofs) of(uid uint32, now clock.Instant) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	digests := []string{}
	for what, end := range p.until {
		if what.uid == uid && now < end {
			digests = append(digests, what.digest)
		}
	}
	slices.Sort(digests)
	return digests
}

func (p *proofs) keep(what proved, now clock.Instant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for old, end := range p.until {
		if now >= end || len(p.until) >= maxProofs {
			delete(p.until, old) // room comes first: a lost proof is only made anew
		}
	}
	p.until[what] = now.Add(proofLife)
}

// proof answers a launcher that has registered and not exec'd yet.
func (b *Broker) proof(p peer.Peer, s *session.Session, ctl wire.Control) wire.Result {
	now := b.opt.Clock.Now()
	refused := func(cause string) wire.Result {
		return wire.Result{Error: wireError(verdict.BadRequest, "keeping the proof of session", s.ID, cause, "launch again with --no-cache")}
	}
	if raw, err := hex.DecodeString(ctl.Digest); err != nil || len(raw) != 32 {
		return refused("its digest is not a SHA-256 in hex")
	}
	if !s.Anchor.ID().Same(p.Process().ID()) || s.Launched() {
		return refused("only a launcher asks, before it execs")
	}
	if ctl.Verb == wire.VerbProofDone {
		if !s.Proved() {
			return refused("the gate was not heard since this session was registered")
		}
		b.proofs.keep(proved{s.UID, ctl.Digest}, now)
		b.record(b.sessionEvent(s, "proved", ""))
	}
	return wire.Result{Proof: &wire.Proof{Fresh: b.proofs.fresh(proved{s.UID, ctl.Digest}, now)}}
}
