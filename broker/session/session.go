// Package session keeps the launched runtimes that the broker knows: who their
// anchors are, and what state each is in.
//
// A Session's facts never change after it was made; its state is guarded by a
// mutex that is held for moments only, never over disk, network or a peer. So
// whatever lowers authority never waits for something slow.
package session

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/wire"
)

// Session is one launch: one generation under a session id.
type Session struct {
	ID         string
	Generation uint64 // counts the launches under ID
	Runtime    string
	UID        uint32
	Owner      uint32 // whose subordinate uid UID is; 0: nobody's
	Dir        string // the anchor's working directory at registration
	Command    string // for people
	Anchor     *peer.Process
	Started    time.Time
	// Unenforced marks a session of root or with capabilities that undo every
	// boundary: it is judged like any other, but nothing holds it.
	Unenforced bool
	Nonce      string // stands in every denial before exec
	Server     string // name of the session's own MCP server; empty: no recovery by the agent
	Unattended bool   // nobody sits before the runtime
	Restored   bool   // its launch was seen by an earlier broker
	// Fell is told when the session's trust ends: it was VERIFIED, and isn't any
	// more. It is called by whoever brought that about, and must not wait.
	Fell func(*Session, lease.Cause)

	commit sync.Mutex // serialises slow promotions; see Commit
	saving sync.Mutex // serialises what is stored of it; see Save

	mu       sync.Mutex
	lease    lease.Lease
	trusted  bool            // it was VERIFIED, and trust hasn't ended since
	callers  map[peer.ID]int // processes that wait for answers
	hooks    []peer.ID       // that stand between the host and its gates
	fence    Fence
	launched bool
	waiting  bool // for the host to greet again; see Part
	gone     bool
	host     string // the host's own session id, as its events give it
	calls    uint64
	denied   uint64
	last     *wire.CheckpointInfo
	denial   *wire.Denial
	since    clock.Instant // of the exec
	proving  bool          // the gate was heard before exec
	recovery recovery
	alarm    string // what locks promotion
	why      string // an operator's words for the last revocation
	verdicts verdicts
	notes    notes
	limits   *peer.Limits // the anchor's first, or higher ones since; nil: nobody has asked
}

// Limited names a resource of which the anchor may have less than before; empty:
// there is none.
func (s *Session) Limited(now peer.Limits) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limits == nil { // as of most sessions for ever: ten thousand have to fit
		s.limits = &now
		return ""
	}
	less := now.Below(*s.limits)
	for i := range now {
		s.limits[i] = max(s.limits[i], now[i])
	}
	return less
}

// User is the user that the session counts for.
func (s *Session) User() uint32 { return cmp.Or(s.Owner, s.UID) }

// Start gives the session its lease, with no authority. A restored session
// remembers whether its runtime was exec'd and its gate seen; one whose launcher
// was still at work stays unlaunched, since nobody saw the moment.
func (s *Session) Start(gateSeen, launched bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease = lease.New(s.Generation)
	if gateSeen {
		s.lease, _, _ = lease.Apply(s.lease, lease.GateSeen{}, 0)
	}
	s.launched = launched
	if s.Restored {
		s.lease, _, _ = lease.Apply(s.lease, lease.Lower{Cause: lease.Restarted}, 0)
	}
}

// Key names this one generation, for what others keep per launch.
func (s *Session) Key() string { return fmt.Sprintf("%s/%d", s.ID, s.Generation) }

// Apply runs one event through the machine and keeps what comes back.
func (s *Session) Apply(ev lease.Event, now clock.Instant) (lease.Lease, []lease.Effect, error) {
	next, effects, fell, err := s.apply(ev, now)
	s.told(fell, next.Cause())
	return next, effects, err
}

func (s *Session) apply(ev lease.Event, now clock.Instant) (lease.Lease, []lease.Effect, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, effects, err := lease.Apply(s.lease, ev, now)
	if s.gone && next.State() != lease.Unverified {
		// The anchor ended while the event was on its way: nothing rises again.
		next, effects, _ = lease.Apply(next, lease.Lower{Cause: lease.AnchorGone}, now)
	}
	return next, effects, s.settle(next), err
}

// Explain keeps an operator's words for a revocation; Why returns them as long
// as the lease is revoked.
func (s *Session) Explain(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.why = why
}

// Why is what the operator said who revoked the lease, if it still is.
func (s *Session) Why() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease.Cause() != lease.Revoked {
		return ""
	}
	return s.why
}

// Lease returns the lease as it stands at now.
func (s *Session) Lease(now clock.Instant) lease.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease.At(now)
}

// Commit serialises the promotions and renewals of one session, whose effects
// go to disk. Lowering events never take it.
func (s *Session) Commit() (unlock func()) {
	s.commit.Lock()
	return s.commit.Unlock
}

// Save serialises what the store is told of one session: a record is made when
// the one before is on disk, so that none takes back what another has said.
// Lowering events never take it.
func (s *Session) Save() (unlock func()) {
	s.saving.Lock()
	return s.saving.Unlock
}

// End notes that the anchor is gone: all authority ends with it, for good. It
// answers false when that was known already.
func (s *Session) End(now clock.Instant) bool {
	fell, first := s.end(now)
	s.told(fell, lease.AnchorGone)
	return first
}

func (s *Session) end(now clock.Instant) (fell, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return false, false
	}
	s.gone = true
	next, _, _ := lease.Apply(s.lease, lease.Lower{Cause: lease.AnchorGone}, now)
	return s.settle(next), true
}

// Gone says whether the anchor has ended.
func (s *Session) Gone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

// HostSession notes the host's own session id and answers the earlier one. A
// change on one anchor means that another conversation took its place.
func (s *Session) HostSession(id string) (before string, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.host
	s.host = id
	return before, before != "" && before != id
}

// Count notes a call's outcome for status.
func (s *Session) Count(denial *wire.Denial, checkpoint *wire.CheckpointInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if denial != nil {
		s.denied++
		s.denial = denial
	}
	if checkpoint != nil {
		s.last = checkpoint
	}
}

// View is the session as status shows it at now.
func (s *Session) View(now clock.Instant) wire.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lease.At(now)
	v := wire.Session{
		ID: s.ID, Runtime: s.Runtime, State: l.State().String(),
		Generation: l.Generation(), Cycle: l.Cycle(), AnchorPID: s.Anchor.PID(),
		UID: s.UID, Dir: s.Dir, Command: s.Command, Launched: s.launched,
		ExpiresInS: int64((l.Left(now) + time.Second - 1) / time.Second),
		GateSeen:   l.GateSeen(), Host: "unproved", Enforced: !s.Unenforced, Alarm: s.alarm,
		Cgroup: s.fence.name(), LastCheckpoint: s.last, LastDenial: s.denial, Calls: s.calls, Denied: s.denied, Started: s.Started,
	}
	switch {
	case s.waiting:
		v.Host = "waiting"
	case s.Runtime == "exec":
		v.Host = "ungated host" // nothing proves that it asks every time
	case l.GateSeen():
		v.Host = "gated"
	}
	if l.State() != lease.Verified {
		v.Reason = l.Cause().String()
		if l.Cause() == lease.Revoked && s.why != "" {
			v.Reason += ": " + s.why
		}
	}
	return v
}
