package peer

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/proc"
)

// Conn is one accepted connection. Authenticate comes first: before it nothing
// can be read or written.
type Conn struct {
	sock     *net.UnixConn
	feat     features
	accepted clock.Instant // only where the kernel has no SO_PEERPIDFD

	mu   sync.Mutex
	peer Peer
	done bool // Close was called: a Peer made after it would never be closed

	ahead []byte           // read, proved, and not yet asked for; only Read and WaitClosed use it
	buf   *[readAhead]byte // what ahead is a part of, until all of it was asked for

	unproved []byte // was read, and its sender had ended by then; see Remains
}

// readAhead is how much is taken at once although less was asked for: a header
// and the payload behind it then cost one call of the kernel and one proof.
const readAhead = 4 << 10

// buffers are used again: most requests need one for a moment.
var buffers = sync.Pool{New: func() any { return new([readAhead]byte) }}

// Authenticate reads from the kernel who connected. It refuses a peer that has
// ended, can't be seen from this pid namespace, or of which anything can't be
// read. The Peer's process is closed with the connection.
func (c *Conn) Authenticate() (Peer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return Peer{}, fmt.Errorf("authenticating a peer: %w", net.ErrClosed)
	}
	if c.peer.proc != nil {
		return c.peer, nil
	}
	raw, err := c.sock.SyscallConn()
	if err != nil {
		return Peer{}, fmt.Errorf("authenticating a peer: %w", err)
	}
	var p Peer
	ctlErr := raw.Control(func(fd uintptr) { p, err = c.identify(int(fd)) })
	if err = errors.Join(ctlErr, err); err != nil {
		return Peer{}, fmt.Errorf("authenticating a peer: %w", err)
	}
	c.peer = p
	return p, nil
}

// identify turns the credentials of a socket into a Peer.
func (c *Conn) identify(fd int) (Peer, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Peer{}, fmt.Errorf("reading SO_PEERCRED: %w", err)
	}
	if cred.Pid <= 0 || cred.Uid == NoUID {
		return Peer{}, fmt.Errorf("peer with pid %d and uid %d can't be seen from here", cred.Pid, cred.Uid)
	}
	var p *Process
	if c.feat.peerPidfd {
		p, err = c.openPeer(fd, int(cred.Pid))
	} else {
		p, err = c.openByNumber(int(cred.Pid), cred.Uid)
	}
	if err != nil {
		return Peer{}, err
	}
	// Newer kernels answer for dead peers too, so only the poll counts.
	if !p.Alive() {
		_ = p.Close()
		return Peer{}, fmt.Errorf("process %d: %w", cred.Pid, ErrGone)
	}
	return Peer{proc: p, uid: cred.Uid, gid: cred.Gid}, nil
}

func (c *Conn) openPeer(fd, pid int) (*Process, error) {
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if err != nil {
		// Dead peers are EINVAL, ESRCH or ENODATA, by kernel.
		return nil, fmt.Errorf("reading SO_PEERPIDFD: %w", err)
	}
	return adopt(c.feat, pidfd, pid)
}

// openByNumber is for kernels without SO_PEERPIDFD. The process that has the
// number now must have the connector's uid, be the same before and after, and
// not have started after the connection was taken.
func (c *Conn) openByNumber(pid int, uid uint32) (*Process, error) {
	p, err := open(c.feat, pid)
	if err != nil {
		return nil, err
	}
	var again proc.Stat
	err = p.withDir(func(d proc.Dir) (err error) {
		again, err = d.Stat()
		return err
	})
	switch {
	case err != nil:
	case again.StartTime != p.StartTime():
		err = fmt.Errorf("process %d: start time changed: %w", pid, ErrGone)
	case again.StartTime > ticks(c.accepted):
		err = fmt.Errorf("process %d started after the connection: %w", pid, ErrGone)
	case p.uid != uid:
		err = fmt.Errorf("process %d has uid %d, and uid %d connected: %w", pid, p.uid, uid, ErrGone)
	}
	if err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

// ticks converts to the unit of field 22, which is 1/100 s on every Linux.
func ticks(i clock.Instant) uint64 {
	return uint64(i.Sub(0) / (10 * time.Millisecond)) //nolint:gosec // no instant is before the boot
}

// Peer returns what Authenticate found, the zero Peer before.
func (c *Conn) Peer() Peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peer
}

// Read reads bytes that the authenticated connector itself has sent. Bytes of
// any other process, bytes that come with open files, and bytes of a connector
// that has ended are refused, and the connection is of no more use.
//
// The kernel never joins bytes of two senders in one read. The sender's pid
// equals the connector's, and the connector is alive after the read: so the
// number was its own at the time of sending.
//
// It isn't for several goroutines at once.
func (c *Conn) Read(b []byte) (int, error) {
	if len(b) == 0 { // recvmsg would take a byte for its credentials
		return 0, nil
	}
	if len(c.ahead) == 0 && len(b) >= readAhead {
		return c.receive(b)
	}
	if len(c.ahead) == 0 {
		c.buf = buffers.Get().(*[readAhead]byte)
		n, err := c.receive(c.buf[:])
		if err != nil || n == 0 {
			return 0, err
		}
		c.ahead = c.buf[:n]
	}
	n := copy(b, c.ahead)
	if c.ahead = c.ahead[n:]; len(c.ahead) == 0 {
		buffers.Put(c.buf)
		c.buf, c.ahead = nil, nil
	}
	return n, nil
}

// receive is one recvmsg and the proof of who sent its bytes.
func (c *Conn) receive(b []byte) (int, error) {
	p := c.Peer()
	if p.proc == nil {
		return 0, fmt.Errorf("reading: %w", ErrUnauthenticated)
	}
	// There is room for the credentials and nothing else: descriptors that an
	// older kernel would pass on are dropped by it, and MSG_CTRUNC says so.
	oob := make([]byte, credSpace)
	n, oobn, flags, _, err := c.sock.ReadMsgUnix(b, oob)
	if err != nil || n == 0 {
		return 0, err
	}
	if flags&unix.MSG_CTRUNC != 0 {
		return 0, fmt.Errorf("reading from process %d: open files came along: %w", p.PID(), ErrSender)
	}
	if err := checkSender(oob[:oobn], p); err != nil {
		return 0, err
	}
	if !p.Alive() {
		c.unproved = bytes.Clone(b[:min(n, maxRemains)])
		return 0, fmt.Errorf("reading from process %d: %w", p.PID(), ErrGone)
	}
	return n, nil
}

var credSpace = unix.CmsgSpace(unix.SizeofUcred)

func checkSender(oob []byte, p Peer) error {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(msgs) != 1 {
		return fmt.Errorf("reading from process %d: no credentials came along: %w", p.PID(), ErrSender)
	}
	cred, err := unix.ParseUnixCredentials(&msgs[0])
	if err != nil {
		return fmt.Errorf("reading from process %d: no credentials came along: %w", p.PID(), ErrSender)
	}
	if int(cred.Pid) != p.PID() || cred.Uid != p.uid {
		return fmt.Errorf("process %d of uid %d wrote on the connection of process %d: %w", cred.Pid, cred.Uid, p.PID(), ErrSender)
	}
	return nil
}

// Write writes to the peer once it is authenticated.
func (c *Conn) Write(b []byte) (int, error) {
	if c.Peer().proc == nil {
		return 0, fmt.Errorf("writing: %w", ErrUnauthenticated)
	}
	return c.sock.Write(b)
}

// Close closes the connection and its peer's process.
func (c *Conn) Close() error {
	c.mu.Lock()
	c.done = true
	p := c.peer.proc
	c.mu.Unlock()
	return errors.Join(c.sock.Close(), p.Close())
}

// CloseWrite tells the peer that no more comes.
func (c *Conn) CloseWrite() error { return c.sock.CloseWrite() }

// End ends whatever waits to read from the connection, now and later.
func (c *Conn) End() { _ = c.sock.CloseRead() }

// LocalAddr returns the socket's address.
func (c *Conn) LocalAddr() net.Addr { return c.sock.LocalAddr() }

// RemoteAddr returns the peer's address, which is empty and identifies nobody.
func (c *Conn) RemoteAddr() net.Addr { return c.sock.RemoteAddr() }

// SetDeadline bounds reads and writes.
func (c *Conn) SetDeadline(t time.Time) error { return c.sock.SetDeadline(t) }

// SetReadDeadline bounds reads.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.sock.SetReadDeadline(t) }

// SetWriteDeadline bounds writes.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.sock.SetWriteDeadline(t) }
