package broker

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of the whole broker. The per-session ones are in guard.toml's [limits].
const (
	maxCalls          = 4096      // connections of either socket at once
	maxOperators      = 256       // requests of operators at once
	maxGrants         = 128       // of these, such that wait for the disk
	maxInsiders       = 16        // requests of sessions on operator.sock at once
	maxBytes          = 256 << 20 // payload bytes in flight
	maxParsing        = 8         // payloads parsed at once: parsing takes many times their size
	firstChunk        = 64 << 10  // bytes of a body that are read before more memory is taken
	keepInput         = 1 << 20   // inputs up to this are kept apart from their payload while a call waits
	maxEqualPerSecond = 20        // equal records of one session before they are counted

	headerTime = 5 * time.Second  // from accept to a whole header
	bodyTime   = 20 * time.Second // from header to a whole body
	replyTime  = 10 * time.Second // for a peer to take its reply
	verbTime   = 30 * time.Second // for a control request that goes to disk
	closeTime  = 4 * time.Second  // for the last records when stopping
	sweepTime  = time.Second      // how often ended leases are tidied up
	reserve    = 5 * time.Second  // kept of the launch budget for everything but the slow steps
)

// connections is how many each socket may hold: as many as the descriptors allow
// with room for what an operator needs. A connection takes two, its overflow
// likewise, and there are two sockets.
func connections() int {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return minConnections
	}
	free := int(min(files.Cur, 1<<20)) - keptFiles
	return max(min(free/8, maxCalls), minConnections)
}

// Descriptors are kept for store, audit, anchors' look-ups and operators.
const (
	keptFiles      = 512
	minConnections = 32
)

// slots counts connections; a full one refuses instead of queueing.
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

func (s *slots) used() int { return len(s.free) }

// budget bounds the memory of payloads under way.
type budget struct {
	mu   sync.Mutex
	left int64
}

func newBudget(n int64) *budget { return &budget{left: n} }

func (b *budget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.left {
		return false
	}
	b.left -= n
	return true
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
}
