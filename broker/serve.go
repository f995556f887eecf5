package broker

import (
	"context"
	"errors"
	"io"
	"time"

	"leaseguard.internal/gate/dialect"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/wire"
)

// serveSession answers one request of broker.sock.
func (b *Broker) serveSession(ctx context.Context, conn *peer.Conn, g guest) {
	wait := headerTime
	if g.busy != nil {
		wait = busyTime
	}
	b.deadline(conn, b.staggered(wait))
	h, err := wire.ReadHeader(conn, wire.Limits{Control: wire.MaxControl, Body: wire.MaxPayload})
	switch {
	case errors.Is(err, io.EOF): // somebody only looked whether a broker listens
	case err != nil:
		b.opt.Log.Info("refusing a request", "pid", g.peer.PID(), "error", err)
		if errors.Is(err, peer.ErrGone) {
			b.lastWords(conn, g.session)
		}
	case g.busy != nil:
		b.turnAway(conn, g, h)
	case h.Kind == wire.KindEvent:
		if g.unsure && h.Role == wire.RoleObserve {
			b.unheard(g, "whose it is could not be proved")
		}
		b.serveEvent(ctx, conn, g, h)
	default:
		b.serveControl(ctx, conn, g, h)
	}
}

// staggered is up to a fifth less than wait, for each connection another: those
// that came at once and say nothing don't end at once, when they would keep all
// others from the processors.
func (b *Broker) staggered(wait time.Duration) time.Duration {
	const steps = 1024
	return wait - time.Duration(b.turn.Add(1)%steps)*wait/(5*steps)
}

// turnAway answers who finds no place.
func (b *Broker) turnAway(conn *peer.Conn, g guest, h wire.Header) {
	if h.Kind == wire.KindEvent && h.Role == wire.RoleObserve {
		b.unheard(g, "the broker is full")
	}
	b.drain(conn, h, busyTime)
	g.leave()
	if h.Kind == wire.KindEvent {
		b.reply(conn, dialect.Render(h.Host, h.Role, dialect.Event{}, g.busy.verdict()))
		return
	}
	b.result(conn, wire.Result{Error: g.busy.error("answering")})
}

// drain reads what a refused request still sends, so that its sender can read
// the refusal instead of failing on its own write.
func (b *Broker) drain(conn *peer.Conn, h wire.Header, within time.Duration) {
	b.deadline(conn, within)
	_, _ = io.CopyN(io.Discard, conn, int64(h.Rest()))
}

// reply writes a gate's answer.
func (b *Broker) reply(conn *peer.Conn, r wire.Reply) { b.send(conn, wire.AppendReply(nil, r)) }

func (b *Broker) send(conn *peer.Conn, frame []byte) {
	b.deadline(conn, replyTime)
	if _, err := conn.Write(frame); err != nil {
		b.opt.Log.Info("writing a reply", "error", err)
	}
}
