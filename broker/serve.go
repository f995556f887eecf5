package broker

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime/debug"
	"time"

	"leaseguard.internal/gate/dialect"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// accept hands each connection to serve in a goroutine of its own. A connection
// beyond the slots is told that the broker is busy by one that reads no more
// than its header, and beyond twice the slots it is closed at once.
func (b *Broker) accept(ctx context.Context, l *peer.Listener, s *slots, serve func(context.Context, *peer.Conn, bool)) {
	overflow := newSlots(cap(s.free))
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			if err == nil {
				_ = conn.Close()
			}
			return
		case err != nil:
			b.opt.Log.Warn("accepting connection", "error", err)
			_ = clock.Sleep(ctx, 5*time.Millisecond)
		case s.take():
			b.spawn(func() { b.guarded(ctx, conn, s, false, serve) })
		case overflow.take():
			b.spawn(func() { b.guarded(ctx, conn, overflow, true, serve) })
		default:
			_ = conn.Close()
		}
	}
}

// guarded runs serve; a panic in it costs this connection alone. The gate at
// the other end sees half a reply or none, and denies.
func (b *Broker) guarded(ctx context.Context, conn *peer.Conn, s *slots, busy bool, serve func(context.Context, *peer.Conn, bool)) {
	defer s.give()
	defer func() { _ = conn.Close() }()
	defer func() {
		if r := recover(); r != nil {
			b.opt.Log.Error("a connection's handler panicked", "panic", r, "stack", string(debug.Stack()))
		}
	}()
	serve(ctx, conn, busy)
}

// serveSession answers one request of broker.sock.
func (b *Broker) serveSession(ctx context.Context, conn *peer.Conn, busy bool) {
	b.deadline(conn, headerTime)
	p, err := conn.Authenticate()
	if err != nil {
		b.opt.Log.Info("refusing a peer", "error", err)
		return
	}
	h, err := wire.ReadHeader(conn, wire.Limits{Control: wire.MaxControl, Body: wire.MaxPayload})
	if errors.Is(err, io.EOF) {
		return // somebody only looked whether a broker listens
	}
	if err != nil {
		b.opt.Log.Info("refusing a request", "pid", p.PID(), "error", err)
		return
	}
	switch {
	case h.Kind == wire.KindEvent && busy:
		b.reply(conn, dialect.Render(h.Host, h.Role, dialect.Event{}, busyVerdict("the broker", "as many connections as it can hold are open")))
	case h.Kind == wire.KindEvent:
		b.serveEvent(ctx, conn, p, h)
	case busy:
		b.result(conn, wire.Result{Error: wireError(verdict.BrokerBusy, "registering", "", "as many connections as the broker can hold are open", "try again")})
	default:
		b.serveControl(ctx, conn, p, h)
	}
}

// receive reads a request's body under the byte budget; give returns the bytes.
func (b *Broker) receive(conn *peer.Conn, h wire.Header) (req wire.Request, give func(), err error) {
	n := int64(h.ControlLen + h.BodyLen)
	if !b.bytes.take(n) {
		return wire.Request{}, nil, errBusy
	}
	b.deadline(conn, bodyTime)
	req, err = wire.ReadBody(conn, h)
	if err != nil {
		b.bytes.give(n)
		return wire.Request{}, nil, err
	}
	return req, func() { b.bytes.give(n) }, nil
}

var errBusy = errors.New("the payloads in flight fill the broker's memory")

// drain reads what a refused request still sends, so that its sender can read
// the refusal instead of failing on its own write.
func (b *Broker) drain(conn *peer.Conn, h wire.Header) {
	b.deadline(conn, bodyTime)
	_, _ = io.CopyN(io.Discard, conn, int64(h.ControlLen+h.BodyLen+len(wire.EndMark)))
}

// reply writes a gate's answer.
func (b *Broker) reply(conn *peer.Conn, r wire.Reply) {
	b.deadline(conn, replyTime)
	if _, err := conn.Write(wire.AppendReply(nil, r)); err != nil {
		b.opt.Log.Info("writing a reply", "error", err)
	}
}

// deadline bounds the next reads and writes of conn by the process's own clock.
func (b *Broker) deadline(conn *peer.Conn, d time.Duration) {
	_ = conn.SetDeadline(clock.Deadline(d)) // fails only on a closed connection, whose reads then fail
}
