package peer

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxGroups is the most groups that a process can be in, by the kernel.
const maxGroups = 1 << 16

// Groups returns the groups that the connector was in when it connected: its
// effective one and all others. On error it must be taken as in none.
func (c *Conn) Groups() ([]uint32, error) {
	p := c.Peer()
	if p.proc == nil {
		return nil, fmt.Errorf("reading a peer's groups: %w", ErrUnauthenticated)
	}
	raw, err := c.sock.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("reading a peer's groups: %w", err)
	}
	var others []uint32
	ctlErr := raw.Control(func(fd uintptr) { others, err = peerGroups(fd) })
	if err = errors.Join(ctlErr, err); err != nil {
		return nil, fmt.Errorf("reading the groups of process %d: %w", p.PID(), err)
	}
	return append(others, p.gid), nil
}

// peerGroups asks for SO_PEERGROUPS, for which x/sys has no function. The kernel
// answers ERANGE and the size that it needs when there are more.
func peerGroups(fd uintptr) ([]uint32, error) {
	const width = uint32(unsafe.Sizeof(uint32(0)))
	groups := make([]uint32, 64)
	for {
		size := uint32(len(groups)) * width //nolint:gosec // at most maxGroups
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0) //nolint:gosec // as the call wants it; both live on until it returns
		n := int(size / width)
		switch {
		case errno == 0 && size%width == 0 && n <= len(groups):
			return groups[:n], nil
		case errno == unix.ERANGE && n > len(groups) && n <= maxGroups:
			groups = make([]uint32, n)
		case errno == 0 || errno == unix.ERANGE:
			return nil, fmt.Errorf("SO_PEERGROUPS answered %d bytes", size)
		default:
			return nil, fmt.Errorf("SO_PEERGROUPS: %w", errno)
		}
	}
}
