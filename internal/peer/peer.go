// Package peer says who is at the other end of a socket, and which processes
// stand above it. It is the only package that touches socket credentials.
//
// # What it promises
//
// A Peer comes from the kernel alone. Listener.Accept takes a connection,
// Conn.Authenticate reads who connected (SO_PEERCRED, SO_PEERPIDFD), and
// Conn.Read hands on bytes only while their sender (SCM_CREDENTIALS) is that
// same, still living process: whoever inherits the descriptor or is passed it
// can't speak in the connector's name. Nothing that a peer writes is an
// identity.
//
// A Process holds a pidfd, so it never turns into another process that got the
// same number. Two are the same when their pidfs inodes are, which the kernel
// gives out once per boot; pid and start time alone are not enough, since a
// reused pid can have the same start time within its 10 ms tick. Liveness is
// poll on the pidfd and nothing else: getsockopt, signal 0 and PIDFD_GET_INFO
// all succeed on the dead.
//
// Parent and Ancestors prove each step: the parent's number is read, the parent
// opened, and the number read again while the child is still held. A parent
// that died in between had its children moved to one of their other ancestors,
// all of them older than the child, so an unchanged number can't mean a
// newcomer.
//
// # Levels
//
// Detect names what the kernel can do. LevelPIDFS needs SO_PEERPIDFD and pidfs
// (Linux 6.9). LevelPIDFD serves older kernels: a peer is opened by its number,
// and its start time is read before and after and may not lie after the
// connection. There a connector that dies at once, and whose number comes round
// to another process of its uid before the broker has opened it, is mistaken
// for that one. Nothing weaker runs.
//
// # What it does not protect
//
// Lineage is the claim, not the program: a process may exec anything. Who has
// CAP_SYS_ADMIN over its own pid namespace can name another process of that
// namespace as the sender. In the first namespace that is root's power; one of
// their own, with a user namespace around it, anybody can make. All that is in such
// a one stands below its maker, so the forger speaks for a process of its own
// session, or of none like itself: that gives no authority. And who may trace a
// process can speak through it: root, and with kernel.yama.ptrace_scope at 0 any
// process of the same user.
package peer

// NoUID is the uid of a peer or process that nobody knows. It is no user's.
const NoUID = ^uint32(0)

// Peer is who connected. Only Conn.Authenticate makes one; the zero Peer is
// nobody, and not alive.
type Peer struct {
	proc *Process
	uid  uint32
	gid  uint32
}

// Process returns the connector, nil for the zero Peer. The connection owns it:
// who keeps it longer than that takes a Dup.
func (p Peer) Process() *Process { return p.proc }

// PID returns the connector's pid, 0 for the zero Peer.
func (p Peer) PID() int { return p.proc.PID() }

// UID returns the effective uid that connected.
func (p Peer) UID() uint32 {
	if p.proc == nil {
		return NoUID
	}
	return p.uid
}

// GID returns the effective gid that connected.
func (p Peer) GID() uint32 {
	if p.proc == nil {
		return NoUID
	}
	return p.gid
}

// Alive says whether the connector still lives.
func (p Peer) Alive() bool { return p.proc.Alive() }
