package broker

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/broker/session"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/sdunit"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// door is the way in of one socket. Who connects is looked at before a byte of
// theirs is read, and is given a place among those of their session and uid, or
// none. So what a session floods is its own share, and hearing nothing from a
// peer never costs another one anything.
type door struct {
	listener *peer.Listener
	looking  chan struct{} // held while a peer is looked at, which waits for nobody
	next     chan *peer.Conn
	waiting  chan struct{} // held by who waits for next
	place    func(*guest) (in *pool)
	serve    func(context.Context, *peer.Conn, guest)
	dog      *sdunit.Watchdog // fed by each round of the loop
	loop     int              // which one it is to the watchdog
	silent   *silents         // who may lose their places to newcomers; nil: nobody
}

// guest is a peer that has been looked at.
type guest struct {
	peer    peer.Peer
	tree    tree             // whose it is
	session *session.Session // nil: it is in none
	path    []session.Step   // from the peer up to the anchor
	outside bool             // it is proved to be in none
	unsure  bool             // nothing is proved of where it is, although it lives
	busy    *busy            // it is to hear no more than this; nil: it is heard
	leave   func()           // gives the place back; more than once does nothing
	heard   func()           // keeps the place for good: the request has been read
}

// busy says who has taken all that there is for them.
type busy struct{ who, cause string }

func (y *busy) verdict() verdict.Verdict { return busyVerdict(y.who, y.cause) }

func (y *busy) error(what string) *wire.Error {
	return wireError(verdict.BrokerBusy, what, y.who, y.cause, "try again")
}

func newDoor(l *peer.Listener, place func(*guest) *pool, serve func(context.Context, *peer.Conn, guest)) *door {
	return &door{listener: l, looking: make(chan struct{}, maxLooking), next: make(chan *peer.Conn), waiting: make(chan struct{}, maxWaiting), place: place, serve: serve}
}

// watched has the door's loop feed a watchdog.
func (d *door) watched(dog *sdunit.Watchdog, loop int) *door {
	d.dog, d.loop = dog, loop
	return d
}

// round feeds the watchdog, and bounds the next wait for a connection, so that a
// loop without work comes round too.
func (d *door) round(waited bool) {
	d.dog.Round(d.loop)
	if beat := d.dog.Beat(); waited && beat > 0 {
		_ = d.listener.SetDeadline(clock.Deadline(beat)) // fails only on a closed listener
	}
}

// accept takes connections until the listener is closed. It never waits for a
// peer: only for those before it to be looked at.
func (b *Broker) accept(ctx context.Context, d *door) {
	for waited := true; ; {
		d.round(waited)
		conn, err := d.listener.Accept()
		waited = errors.Is(err, os.ErrDeadlineExceeded)
		switch {
		case waited && ctx.Err() == nil:
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			if err == nil {
				_ = conn.Close()
			}
			return
		case err != nil:
			b.opt.Log.Warn("accepting connection", "error", err)
			_ = clock.Sleep(ctx, 5*time.Millisecond)
		case conn.State().Left: // it may have been one of a flood; it costs no look
			_ = conn.Close()
		default:
			d.looking <- struct{}{}
			select {
			case d.next <- conn:
			default:
				b.spawn(func() { b.receiveGuests(ctx, conn, d) })
			}
		}
	}
}

// receiveGuests serves a connection, and then those that come while it has
// nothing to do: a goroutine whose stack has grown answers sooner than a new one.
func (b *Broker) receiveGuests(ctx context.Context, conn *peer.Conn, d *door) {
	for {
		b.receiveGuest(ctx, conn, d)
		select {
		case d.waiting <- struct{}{}:
		default:
			return // enough of them wait
		}
		select {
		case conn = <-d.next:
			<-d.waiting
		case <-ctx.Done():
			return
		}
	}
}

// receiveGuest looks at a peer and serves it. A panic in that costs this
// connection alone: the gate at the other end sees half a reply or none, and
// denies.
func (b *Broker) receiveGuest(ctx context.Context, conn *peer.Conn, d *door) {
	defer func() { _ = conn.Close() }()
	defer b.hurry(ctx, conn)()
	defer func() {
		if r := recover(); r != nil {
			b.opt.Log.Error("a connection's handler panicked", "panic", r, "stack", string(debug.Stack()))
		}
	}()
	g, ok := b.admitGuest(conn, d)
	if !ok {
		return
	}
	defer g.leave()
	d.serve(ctx, conn, g)
}

// admitGuest finds out who connected and takes their place.
func (b *Broker) admitGuest(conn *peer.Conn, d *door) (g guest, ok bool) {
	defer func() { <-d.looking }()
	p, err := conn.Authenticate()
	if err != nil {
		b.opt.Log.Info("refusing a peer", "error", err)
		b.lastWords(conn, nil)
		return guest{}, false
	}
	if b.knocked(conn, p) || conn.State().Left {
		return guest{}, false
	}
	g.peer = p
	g.session, g.path, err = b.sessions.Find(p.Process())
	g.outside = errors.Is(err, session.ErrNotRegistered)
	g.unsure = err != nil && !g.outside && !errors.Is(err, peer.ErrGone)
	if err != nil && !g.outside {
		b.opt.Log.Info("proving a caller's lineage", "pid", p.PID(), "error", err)
	}
	g.tree = b.treeOf(p, g.session)
	defer d.silent.closer()()
	in := d.place(&g)
	if in == nil {
		if g.unsure {
			b.lastWords(conn, nil)
		}
		return g, false
	}
	give := sync.OnceFunc(func() { in.give(g.tree, 1) })
	g.heard = d.silent.enter(in, g.tree, conn, give)
	g.leave = func() { g.heard(); give() }
	return g, true
}

func (b *Broker) treeOf(p peer.Peer, s *session.Session) tree {
	if s != nil {
		return tree{user: s.User(), session: s}
	}
	return tree{user: b.owners.Owner(p.UID())}
}

// unheard lowers the lease of a session whose connection can't be taken in: it
// may have told of lost context. Where nobody can tell which session that is, it
// may be each of the user's.
func (b *Broker) unheard(g guest, cause string) {
	cause = "an event of the host could not be taken in: " + cause
	switch {
	case g.unsure:
		b.missed(g.peer.UID(), nil, cause)
	case g.session != nil && g.session.Launched():
		b.lower(g.session, lease.Observed, cause)
	}
}

// placeCaller gives a place at broker.sock: to be heard, or to be told that the
// broker is busy. Without any there is no pool.
func (b *Broker) placeCaller(g *guest) (in *pool) {
	limits := &b.settings().config.Limits
	uid := uidText(g.peer.UID())
	limit, who, cause := limits.SessionsPerUID, uid, "it has as many connections outside its sessions as limits.sessions_per_uid allows"
	if s := g.session; s != nil {
		limit, who, cause = limits.CallsPerSession, "session "+s.ID, "it has as many calls in flight as limits.calls_per_session allows"
	}
	switch b.calls.take(g.tree, 1, limit) {
	case fits:
		return b.calls
	case uidFull:
		who, cause = uid, "it has as many connections as the broker leaves to one user"
	case treeFull: // as it stands above
	}
	g.busy = &busy{who, cause}
	if b.refusals.take(g.tree, 1, limit+maxRefused) != fits {
		if !g.unsure {
			b.unheard(*g, "the broker is full") // events come by this socket alone
		}
		return nil
	}
	return b.refusals
}

// placeOperator gives a place at operator.sock. Sessions, and who may be in one,
// have few of their own there and none of an operator's.
func (b *Broker) placeOperator(g *guest) (in *pool) {
	places, limit := b.people, maxOperators
	if !g.outside {
		places, limit = b.insiders, maxInsidersEach
	}
	if places.take(g.tree, 1, limit) == fits || b.silent.evict(places, g.tree) && places.take(g.tree, 1, limit) == fits {
		return places
	}
	if !g.outside {
		return nil
	}
	g.busy = &busy{uidText(g.peer.UID()), "it has as many connections as the broker leaves to one operator"}
	if b.strays.take(g.tree, 1, limit) != fits {
		return nil
	}
	return b.strays
}
