package peer

import "errors"

// What callers tell apart. All of them refuse.
var (
	// ErrGone: the process has ended, or its number is another's by now.
	ErrGone = errors.New("process has ended")
	// ErrTop: the process has no parent that can be seen from here. A walk up
	// ends there.
	ErrTop = errors.New("no parent")
	// ErrLineage: a step of the walk up could not be proved. Asking again may
	// succeed; until then there is no lineage.
	ErrLineage = errors.New("lineage not proved")
	// ErrUnauthenticated: the connection was used before Authenticate succeeded.
	ErrUnauthenticated = errors.New("peer not authenticated")
	// ErrSender: the bytes come from another process than the connector, or
	// bring open files. The connection must be closed.
	ErrSender = errors.New("not sent by the connector")
	// ErrTalks: the peer wrote where it may only wait.
	ErrTalks = errors.New("peer wrote after its request")
	// ErrPath: the socket path can't be used as it stands.
	ErrPath = errors.New("unusable socket path")
	// ErrUnavailable: nobody answers on the socket.
	ErrUnavailable = errors.New("broker unavailable")
	// ErrUntrusted: socket, directory or listener isn't the broker's.
	ErrUntrusted = errors.New("broker not trusted")
)
