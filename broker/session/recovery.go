package session

import (
	"errors"
	"time"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/peer"
)

// recoveryTime is how long the host's own gate event for the recovery tool
// opens the broker to the one call that it announced.
const recoveryTime = 10 * time.Second

// recovery is what is known of the process that serves the recovery tool.
type recovery struct {
	pinned *peer.Process // the first that spoke in this generation
	free   bool          // an operator's approval lets the next one be pinned
	token  lease.Hash    // of the announced call; zero: it begins
	until  clock.Instant // zero: no call is announced
}

// Errors of Pin and TakeRecovery.
var (
	// ErrPinned: another process serves this session's recovery tool, or did and
	// no operator has approved the session since.
	ErrPinned = errors.New("another process is this session's recovery tool")
	// ErrUnannounced: the host's own gate didn't ask for this very call within
	// the last seconds.
	ErrUnannounced = errors.New("the host's gate has not announced this call")
)

// Pin makes p the one process of this generation that may recover, as long as
// the session lives. It answers nil for the process that is pinned already.
func (s *Session) Pin(p *peer.Process) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone { // Release has closed what was held, or is about to
		return peer.ErrGone
	}
	r := &s.recovery
	if r.pinned != nil {
		if r.pinned.ID().Same(p.ID()) {
			return nil
		}
		if r.pinned.Alive() || !r.free {
			return ErrPinned
		}
		_ = r.pinned.Close()
		r.pinned = nil
	}
	held, err := p.Dup()
	if err != nil {
		return err
	}
	r.pinned, r.free = held, false
	return nil
}

// Repin lets the next process be pinned once the present one has ended: an
// operator has approved the session.
func (s *Session) Repin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recovery.free = true
}

// Announce notes the host's own gate event for the recovery tool.
func (s *Session) Announce(token lease.Hash, now clock.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recovery.token, s.recovery.until = token, now.Add(recoveryTime)
}

// TakeRecovery uses up an announcement of exactly this call.
func (s *Session) TakeRecovery(token lease.Hash, now clock.Instant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.recovery
	fits := r.until != 0 && now < r.until && r.token == token
	r.token, r.until = lease.Hash{}, 0
	if !fits {
		return ErrUnannounced
	}
	return nil
}

// Release closes the processes that the session holds, once it has ended.
func (s *Session) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.Anchor.Close()
	_ = s.recovery.pinned.Close()
	s.recovery.pinned = nil
}
