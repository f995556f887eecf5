package broker

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/wire"
)

// memory bounds the bytes of payloads under way, in three parts that take nothing
// from each other. Who is in no session has one of their own: whatever they send
// costs no session its answer. Small payloads of sessions have another: nearly
// all events are small, and no flood of large ones keeps them out.
type memory struct{ outside, small, large *pool }

func newMemory() memory {
	const few, one = firstFew * smallBody, wire.MaxPayload + wire.MaxControl + len(wire.EndMark)
	return memory{
		outside: newPool(maxOutside, few, 0),
		small:   newPool(maxSmall, few, 0),
		large:   newPool(maxBytes-maxOutside-maxSmall, one, 0),
	}
}

// part is where a request's bytes are taken, and how many its tree may have.
func (m memory) part(t tree, h wire.Header) (p *pool, limit int) {
	switch {
	case t.session == nil:
		return m.outside, maxOutside
	case isSmall(h):
		return m.small, maxSmall
	default:
		return m.large, maxBodies
	}
}

// isSmall says whether a request is as small as nearly all are.
func isSmall(h wire.Header) bool { return h.BodyLen <= smallBody }

// mayRegister says whether a request from outside may be a registration, which
// brings a project's policy hooks.
func mayRegister(h wire.Header) bool {
	return h.Kind == wire.KindControl && h.BodyLen <= wire.MaxProject
}

// Why a request is not read.
var (
	errBusy    = errors.New("the payloads in flight fill the broker's memory, or the share of it that one user or session has")
	errOutside = errors.New("it is large, and comes from outside of all sessions")
)

// receive reads what follows a header. Memory is taken as the bytes come, not as
// they are announced: a peer that only promises holds next to nothing. give
// returns what was taken. Of who is in no session nothing large is read: they are
// denied whatever it says.
func (b *Broker) receive(conn *peer.Conn, t tree, h wire.Header) (req wire.Request, give func(), err error) {
	if t.session == nil && !isSmall(h) && !mayRegister(h) {
		b.drain(conn, h, bodyTime)
		return wire.Request{}, nil, errOutside
	}
	b.deadline(conn, bodyTime)
	part, limit := b.bytes.part(t, h)
	buf, taken := []byte(nil), 0
	give = func() { part.give(t, taken) }
	for len(buf) < h.Rest() {
		chunk := min(max(len(buf), firstChunk), h.Rest()-len(buf))
		if part.take(t, chunk, limit) != fits {
			give()
			h.BodyLen, h.ControlLen = h.Rest()-len(wire.EndMark)-len(buf), 0
			b.drain(conn, h, bodyTime)
			return wire.Request{}, nil, errBusy
		}
		taken += chunk
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
