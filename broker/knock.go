package broker

import (
	"bytes"
	"context"
	"errors"
	"os"
	"time"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/broker/session"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/wire"
)

// A host tells of lost context once, and its gate gives the broker two seconds to
// take that in. Whoever keeps broker.sock so busy that a gate finds no hearing in
// time would keep a lease that has to end. So the broker knocks at its own door:
// it stands in the same queue as the gates do.

const (
	knockEvery = 250 * time.Millisecond // while there is any authority to lose
	gatesPause = 200 * time.Millisecond // before a gate that was hung up on tries once more
	knockTime  = time.Second            // from the knock to its answer: half of a gate's time, which may have begun just after it
)

// knocks goes on until ctx ends.
func (b *Broker) knocks(ctx context.Context) {
	for clock.Sleep(ctx, knockEvery) == nil {
		if len(b.trusted()) > 0 {
			b.knock(ctx, b.opt.Paths.BrokerSocket, knockTime)
		}
	}
}

// knock comes to the door at path as anybody does, and lowers all leases when it
// isn't looked at in time.
func (b *Broker) knock(ctx context.Context, path string, within time.Duration) {
	in, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := b.comeToDoor(in, path)
	if errors.Is(err, errUnseen) && clock.Sleep(in, gatesPause) == nil {
		err = b.comeToDoor(in, path)
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	b.opt.Log.Warn("knocking at the broker's own socket", "error", err)
	for _, s := range b.trusted() {
		b.lower(s, lease.Observed, "the broker was too busy to hear the hosts' events in time")
	}
}

// errUnseen: whoever ended the connection hadn't seen who it was.
var errUnseen = errors.New("it was hung up on unseen")

func (b *Broker) comeToDoor(ctx context.Context, path string) error {
	before := b.answered.Load()
	err := peer.Reach(ctx, path)
	if err == nil && b.answered.Load() == before {
		return errUnseen
	}
	return err
}

// knocked says whether a peer is the broker itself, knocking. It is let go before
// anything of it is proved. A broker that is out of descriptors sees nobody, and
// ends its own connection too: so it counts what it has seen.
func (b *Broker) knocked(conn *peer.Conn, p peer.Peer) bool {
	if p.PID() != os.Getpid() {
		return false
	}
	b.answered.Add(1)
	return conn.State().Half
}

// trusted are the sessions that have, or are about to get, authority.
func (b *Broker) trusted() (some []*session.Session) {
	now := b.opt.Clock.Now()
	for _, s := range b.sessions.All() {
		if s.Lease(now).State() != lease.Unverified {
			some = append(some, s)
		}
	}
	return some
}

// lastWords are what a peer has sent that had ended before it was heard, as a
// gate has whose time is over. Nobody can tell whose they are. If they would have
// been an observer's event, it may have told of lost context: the leases of the
// uid that connected end, or that of the session if it was found.
func (b *Broker) lastWords(conn *peer.Conn, s *session.Session) {
	uid, sent := conn.Remains()
	h, err := wire.ReadHeader(bytes.NewReader(sent), wire.Limits{Control: wire.MaxControl, Body: wire.MaxPayload})
	if err != nil || h.Kind != wire.KindEvent || h.Role != wire.RoleObserve {
		return
	}
	b.missed(uid, s, "an event of the host could not be taken in: its gate had ended by then, or nobody could tell whose it was")
}

// missed lowers the lease that an event was about which nobody could take in: of
// the session, if that is known, else each of the user's.
func (b *Broker) missed(uid uint32, s *session.Session, why string) {
	user := b.owners.Owner(uid)
	for _, t := range b.trusted() {
		if t == s || s == nil && (t.UID == uid || t.User() == user) {
			b.lower(t, lease.Observed, why)
		}
	}
}
