package peer

import (
	"golang.org/x/sys/unix"
)

// maxRemains is how much of a dead peer's bytes is of interest.
const maxRemains = 64

// State is what a connection's descriptor shows without anything being read.
type State struct {
	Left   bool // closed at the other end by all who hold it, and nothing is left to read
	Silent bool // nothing can be read
	Half   bool // the other end says no more, and nothing is left to read
}

// State looks at the connection. What can't be looked at has left.
func (c *Conn) State() State {
	gone := State{Left: true, Silent: true, Half: true}
	raw, err := c.sock.SyscallConn()
	if err != nil {
		return gone
	}
	s := gone
	if raw.Control(func(fd uintptr) { s = look(int(fd)) }) != nil {
		return gone
	}
	return s
}

func look(fd int) State {
	events, err := poll(fd, unix.POLLIN|unix.POLLRDHUP)
	if err != nil {
		return State{Left: true, Silent: true, Half: true}
	}
	if events&unix.POLLIN == 0 {
		return State{Silent: true, Left: events&(unix.POLLHUP|unix.POLLERR) != 0}
	}
	if events&unix.POLLRDHUP == 0 {
		return State{} // it has sent something
	}
	if n, err := unix.IoctlGetInt(fd, unix.SIOCINQ); err != nil || n > 0 {
		return State{}
	}
	return State{Left: events&unix.POLLHUP != 0, Silent: true, Half: true}
}

// Remains returns the uid of who connected and the first bytes that came from a
// peer which had ended before it was proved who sends them. Whoever holds the
// connection may have sent them: they are good for taking authority away and for
// nothing else.
func (c *Conn) Remains() (uid uint32, sent []byte) {
	uid = NoUID
	raw, err := c.sock.SyscallConn()
	if err != nil {
		return uid, nil
	}
	sent = c.unproved
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid = cred.Uid
		}
		if sent != nil {
			return
		}
		b := make([]byte, maxRemains)
		if n, _, err := unix.Recvfrom(int(fd), b, unix.MSG_DONTWAIT); err == nil {
			sent = b[:n]
		}
	})
	return uid, sent
}
