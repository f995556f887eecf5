package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"slices"
	"time"

	"leaseguard.internal/broker/lease"
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
			b.unheard(conn)
			_ = conn.Close()
		}
	}
}

// unheard lowers the lease of a session whose connection can't be taken in: it
// may have told of lost context.
func (b *Broker) unheard(conn *peer.Conn) {
	p, err := conn.Authenticate()
	if err != nil {
		return
	}
	if s, _, err := b.sessions.Find(p.Process()); err == nil && s.Launched() {
		b.lower(s, lease.Observed, "an event of the host could not be taken in: the broker is full")
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
		if h.Role == wire.RoleObserve {
			b.unheard(conn)
		}
		b.reply(conn, dialect.Render(h.Host, h.Role, dialect.Event{}, busyVerdict("the broker", "as many connections as it can hold are open")))
	case h.Kind == wire.KindEvent:
		b.serveEvent(ctx, conn, p, h)
	case busy:
		b.result(conn, wire.Result{Error: wireError(verdict.BrokerBusy, "registering", "", "as many connections as the broker can hold are open", "try again")})
	default:
		b.serveControl(ctx, conn, p, h)
	}
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
			b.drain(conn, h)
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
func (b *Broker) drain(conn *peer.Conn, h wire.Header) {
	b.deadline(conn, bodyTime)
	_, _ = io.CopyN(io.Discard, conn, int64(h.Rest()))
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
