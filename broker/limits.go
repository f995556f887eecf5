package broker

import (
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/wire"
)

// Bounds of the whole broker. The per-session ones are in guard.toml's [limits].
const (
	maxCalls          = 4096                // connections of broker.sock that are heard, and as many that are refused
	maxRefused        = 256                 // connections of one tree beyond its limit that are told so; the next ones are hung up on
	maxWaiting        = 8                   // goroutines of a socket that wait for the next connection
	maxLooking        = 32                  // connections of a socket that are being looked at
	maxCrowd          = 64                  // connections that wait at operator.sock to be taken: whoever waits waits for no more
	maxOperators      = 256                 // connections of operators on operator.sock
	maxGrants         = 128                 // of these, such that wait for the disk
	maxInsiders       = 64                  // connections of sessions on operator.sock
	maxInsidersEach   = 4                   // of these, such of one session
	maxBytes          = 256 << 20           // payload bytes in flight, in the three parts of newMemory
	maxOutside        = 32 << 20            // of these, such of who is in no session: they are denied anyway
	maxSmall          = 64 << 20            // of these, such of small payloads, as nearly all are
	smallBody         = 64 << 10            // payloads up to this are small
	maxBodies         = 4 * wire.MaxPayload // of one session's large payloads
	maxName           = 4096                // bytes of a name, an id or a directory in a payload
	maxParsing        = 8                   // payloads parsed at once: parsing takes many times their size
	firstChunk        = 64 << 10            // bytes of a body that are read before more memory is taken
	keepInput         = 1 << 20             // inputs up to this are kept apart from their payload while a call waits
	maxEqualPerSecond = 20                  // equal records of one session before they are counted

	headerTime = 5 * time.Second        // from accept to a whole header
	busyTime   = time.Second            // the same for who is to be refused, and then for the rest
	bodyTime   = 20 * time.Second       // from header to a whole body
	replyTime  = 10 * time.Second       // for a peer to take its reply
	verbTime   = 30 * time.Second       // for a control request that goes to disk
	recordTime = 100 * time.Millisecond // for the record of a revocation, which doesn't wait for it, to be on disk
	testTime   = 10 * time.Second       // for the test of the own sockets at the start
	closeTime  = 4 * time.Second        // for the last records when stopping
	sweepTime  = time.Second            // how often ended leases are tidied up
	reserve    = 5 * time.Second        // kept of the launch budget for everything but the slow steps
)

// connections is how many broker.sock may hold of either kind: as many as the
// descriptors allow with room for what an operator needs. One takes two.
func connections() int {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return minConnections
	}
	all := int(min(files.Cur, 1<<20))
	return max(min((all-min(keptFiles, all/2))/4, maxCalls), minConnections)
}

// Descriptors are kept for store, audit, look-ups, anchors and operators: half of
// few, or a flood of calls would leave none to prove who wants to revoke.
const (
	keptFiles      = 1024
	minConnections = 4
)

// slots counts what runs at once; a full one refuses instead of queueing.
type slots struct{ free chan struct{} }

func newSlots(n int) *slots { return &slots{free: make(chan struct{}, n)} }

func (s *slots) take() bool {
	select {
	case s.free <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s *slots) give() { <-s.free }
