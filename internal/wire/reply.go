package wire

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Reply is the broker's frame. For KindAnswer, Out and Err are the exact bytes
// that the gate writes to stdout and stderr and Exit is its status. For
// KindResult, Out is the JSON result and Err is empty.
type Reply struct {
	Kind Kind
	Exit uint8
	Out  []byte
	Err  []byte
}

// ResultFrame makes a frame of KindResult of b, which has room for the header and
// then the JSON: a status of many sessions is in memory once.
func ResultFrame(b []byte, exit uint8) []byte {
	copy(b, AppendReply(nil, Reply{Kind: KindResult, Exit: exit})[:ReplySize])
	putLength(b[12:], len(b)-ReplySize)
	return append(b, EndMark[:]...)
}

func putLength(b []byte, n int) {
	binary.BigEndian.PutUint32(b, uint32(n)) //nolint:gosec // senders bound their parts far below 4 GiB
}

// AppendReply appends r's frame to b.
func AppendReply(b []byte, r Reply) []byte {
	b = append(b, ReplyMagic[:]...)
	b = append(b, Version, byte(r.Kind), r.Exit, 0, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Out))) //nolint:gosec // senders bound their parts far below 4 GiB
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Err))) //nolint:gosec // likewise
	b = append(b, r.Out...)
	b = append(b, r.Err...)
	return append(b, EndMark[:]...)
}

// ReadReply reads one reply whose parts are at most max bytes each.
func ReadReply(r io.Reader, max int) (Reply, error) { return readReply(r, max, max) }

func readReply(r io.Reader, maxOut, maxErr int) (Reply, error) {
	var b [ReplySize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return Reply{}, fmt.Errorf("reading reply header: %w", err)
	}
	if [4]byte(b[0:4]) != ReplyMagic || b[4] != Version {
		return Reply{}, fmt.Errorf("%w: reply starts with % x, want % x and version %d", ErrFrame, b[:5], ReplyMagic, Version)
	}
	out, errLen := binary.BigEndian.Uint32(b[12:16]), binary.BigEndian.Uint32(b[16:20])
	if int64(out) > int64(maxOut) || int64(errLen) > int64(maxErr) {
		return Reply{}, fmt.Errorf("%w: parts of %d and %d bytes exceed the limits %d and %d", ErrFrame, out, errLen, maxOut, maxErr)
	}
	buf := make([]byte, int(out)+int(errLen)+len(EndMark))
	if _, err := io.ReadFull(r, buf); err != nil {
		return Reply{}, fmt.Errorf("reading reply body: %w", err)
	}
	if [4]byte(buf[len(buf)-4:]) != EndMark {
		return Reply{}, fmt.Errorf("%w: no end mark after the reply", ErrFrame)
	}
	return Reply{Kind: Kind(b[5]), Exit: b[6], Out: buf[:out:out], Err: buf[out : out+errLen : out+errLen]}, nil
}
