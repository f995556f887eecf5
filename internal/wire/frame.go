// Package wire is what leaseguard's programs say to each other over a Unix
// socket: one framed request and one framed reply per connection.
//
// A frame is a fixed header, two bodies whose lengths the header gives, and an
// end mark. Lengths are checked against the caller's limits before anything is
// allocated. Frames carry no identity: who speaks is asked from the kernel.
// The byte layout is in docs/protocol.md; guard-gate has its own few lines of
// it, held equal to these by a test.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Version is the protocol's version. A peer of another version is refused.
const Version = 1

// Sizes that no configuration can raise.
const (
	MaxControl  = 64 << 10
	MaxPayload  = 16 << 20
	MaxContext  = 1 << 20  // context documents of a begin or approve together
	MaxOutput   = 64 << 10 // stdout and stderr of a gate's reply, each
	RequestSize = 20       // bytes of a request's header
	ReplySize   = 20       // bytes of a reply's header
)

// The marks that open and close each frame.
var (
	RequestMagic = [4]byte{'L', 'G', 'q', '1'}
	ReplyMagic   = [4]byte{'L', 'G', 'r', '1'}
	EndMark      = [4]byte{'.', 'e', 'n', 'd'}
)

// Kind says what a frame is about. Zero is invalid.
type Kind uint8

// Request and reply kinds.
const (
	KindInvalid     Kind = iota
	KindEvent            // a host's hook event, from guard-gate; the body is its payload
	KindControl          // a verb as JSON in the control part; documents in the body
	KindAnswer           // reply to KindEvent: stdout, stderr and exit status, to be written as they are
	KindResult           // reply to KindControl: JSON in the control part
	KindHooks            // reply to KindEvent: run policy hooks; and what they are, once the runner is ready
	KindHooksReady       // from the runner that the gate became, on the event's connection
	KindHookResults      // likewise: JSON in the body; the reply is KindAnswer
)

// Host is the dialect that the hook's entry names.
type Host uint8

// The hosts. Zero is none: control requests have it.
const (
	HostNone Host = iota
	HostClaude
	HostCodex
	HostPi
)

// Role is what the hook's entry wants of the answer.
type Role uint8

// The roles. Zero is none: control requests have it.
const (
	RoleNone Role = iota
	RoleDecide
	RoleObserve
)

// Flags of a request's header.
const (
	// FlagOversize: the payload was over the gate's cap; the body is empty.
	FlagOversize uint8 = 2
)

// LineFD is where a Codex that guard has launched has its line: one end of a
// socketpair, made by the launcher and left open over exec. Codex starts its hooks
// with it and its tools without, so that a gate that has it was started as a hook.
const LineFD = 200

// MaxPID is the largest number of a process that a header can name. The kernel
// gives out none above 1<<22.
const MaxPID = 1<<24 - 1

// ErrFrame is what every malformed frame's error wraps.
var ErrFrame = errors.New("malformed frame")

// Request is one frame to the broker.
type Request struct {
	Kind    Kind
	Host    Host
	Role    Role
	Flags   uint8
	Peer    uint32 // of an event: pid at the other end of the gate's fd 0 (of Codex: LineFD), as the gate sees it; 0: none
	Control []byte
	Body    []byte
}

// Limits bounds what ReadRequest takes in.
type Limits struct {
	Control int
	Body    int
}

// Header is a request's fixed part, read before anything is allocated for it.
type Header struct {
	Kind       Kind
	Host       Host
	Role       Role
	Flags      uint8
	Peer       uint32
	ControlLen int
	BodyLen    int
}

// ReadHeader reads and checks the fixed part of a connection's first request.
func ReadHeader(r io.Reader, lim Limits) (Header, error) {
	h, err := readHeader(r, lim)
	if err != nil {
		return Header{}, err
	}
	return h, h.check()
}

func readHeader(r io.Reader, lim Limits) (Header, error) {
	var b [RequestSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return Header{}, fmt.Errorf("reading request header: %w", err)
	}
	if [4]byte(b[0:4]) != RequestMagic || b[4] != Version {
		return Header{}, fmt.Errorf("%w: request starts with % x, want % x and version %d", ErrFrame, b[:5], RequestMagic, Version)
	}
	h := Header{Kind: Kind(b[5]), Host: Host(b[6]), Role: Role(b[7]), Flags: b[8],
		Peer: binary.BigEndian.Uint32(b[8:12]) & MaxPID}
	control, body := binary.BigEndian.Uint32(b[12:16]), binary.BigEndian.Uint32(b[16:20])
	if int64(control) > int64(min(lim.Control, MaxControl)) || int64(body) > int64(min(lim.Body, MaxPayload)) {
		return Header{}, fmt.Errorf("%w: control %d and body %d bytes exceed the limits %d and %d",
			ErrFrame, control, body, min(lim.Control, MaxControl), min(lim.Body, MaxPayload))
	}
	h.ControlLen, h.BodyLen = int(control), int(body)
	return h, nil
}

func (h Header) check() error {
	switch {
	case h.Kind == KindEvent && h.Host >= HostClaude && h.Host <= HostPi &&
		(h.Role == RoleDecide || h.Role == RoleObserve) && h.ControlLen == 0 &&
		h.Flags&^FlagOversize == 0:
		return nil
	case h.Kind == KindControl && h.Host == HostNone && h.Role == RoleNone && h.Flags == 0 && h.Peer == 0 && h.ControlLen > 0:
		return nil
	}
	return fmt.Errorf("%w: kind %d, host %d, role %d, flags %#x, peer %d and control length %d don't fit together",
		ErrFrame, h.Kind, h.Host, h.Role, h.Flags, h.Peer, h.ControlLen)
}

// ReadBody reads what follows the header and checks the end mark.
func ReadBody(r io.Reader, h Header) (Request, error) {
	buf := make([]byte, h.Rest())
	if _, err := io.ReadFull(r, buf); err != nil {
		return Request{}, fmt.Errorf("reading request body: %w", err)
	}
	return h.Split(buf)
}

// Rest is how many bytes follow the header.
func (h Header) Rest() int { return h.ControlLen + h.BodyLen + len(EndMark) }

// Split makes a request of the bytes that follow the header. Its parts are parts
// of buf.
func (h Header) Split(buf []byte) (Request, error) {
	req := Request{Kind: h.Kind, Host: h.Host, Role: h.Role, Flags: h.Flags, Peer: h.Peer}
	if len(buf) != h.Rest() || [4]byte(buf[len(buf)-4:]) != EndMark {
		return Request{}, fmt.Errorf("%w: no end mark after the body", ErrFrame)
	}
	req.Control = buf[:h.ControlLen:h.ControlLen]
	req.Body = buf[h.ControlLen : h.ControlLen+h.BodyLen : h.ControlLen+h.BodyLen]
	return req, nil
}

// AppendRequest appends req's frame to b.
func AppendRequest(b []byte, req Request) []byte {
	b = append(b, RequestMagic[:]...)
	b = append(b, Version, byte(req.Kind), byte(req.Host), byte(req.Role))
	b = binary.BigEndian.AppendUint32(b, uint32(req.Flags)<<24|req.Peer&MaxPID)
	b = binary.BigEndian.AppendUint32(b, uint32(len(req.Control))) //nolint:gosec // senders bound their parts far below 4 GiB
	b = binary.BigEndian.AppendUint32(b, uint32(len(req.Body)))    //nolint:gosec // likewise
	b = append(b, req.Control...)
	b = append(b, req.Body...)
	return append(b, EndMark[:]...)
}
