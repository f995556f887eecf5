package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
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
	case g.busy != nil:
		b.turnAway(conn, g, h)
	case h.Kind == wire.KindEvent:
		b.serveEvent(ctx, conn, g, h)
	default:
		b.serveControl(ctx, conn, g.peer, h)
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
		b.unheard(g)
	}
	b.drain(conn, h, busyTime)
	g.leave()
	if h.Kind == wire.KindEvent {
		b.reply(conn, dialect.Render(h.Host, h.Role, dialect.Event{}, g.busy.verdict()))
		return
	}
	b.result(conn, wire.Result{Error: g.busy.error("answering")})
}

// receive reads what follows a header. Memory is taken from the byte budget as
// the bytes come, not as they are announced: a peer that only promises holds
// next to nothing. give returns what was taken.
func (b *Broker) receive(conn *peer.Conn, h wire.Header) (req wire.Request, give func(), err error) {
	b.deadline(conn, bodyTime)
	buf, taken := []byte(nil), int64(0)
	give = func() { b.bytes.give(taken) }
	for len(buf) < h.Rest() {
		chunk := min(max(len(buf), firstChunk), h.Rest()-len(buf))
		if !b.bytes.take(int64(chunk)) {
			give()
			h.BodyLen, h.ControlLen = h.Rest()-len(wire.EndMark)-len(buf), 0
			b.drain(conn, h, bodyTime)
			return wire.Request{}, nil, errBusy
		}
		taken += int64(chunk)
		buf = slices.Grow(buf, chunk)
		n, err := io.ReadFull(conn, buf[len(buf):len(buf)+chunk])
		buf = buf[:len(buf)+n]
		if err != nil {
			give()
			return wire.Request{}, nil, fmt.Errorf("reading request body: %w", err)
		}
	}
	if req, err = h.Split(buf); err != nil {
		give()
		return wire.Request{}, nil, err
	}
	return req, give, nil
}

var errBusy = errors.New("the payloads in flight fill the broker's memory")

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
