package session

import (
	"crypto/sha256"
	"strconv"
	"time"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/verdict"
)

// Bounds of what is remembered of a session's calls.
const (
	keepVerdicts = 10_000
	keepFor      = 24 * time.Hour
)

// CallKey names one tool call of a host: a digest, since the host's ids have any
// length.
type CallKey [sha256.Size]byte

// NewCallKey makes the key of a call.
func NewCallKey(hostSession, toolUse string) CallKey {
	b := make([]byte, 0, 128)
	b = append(strconv.AppendInt(b, int64(len(hostSession)), 10), ' ')
	b = append(append(b, hostSession...), ' ')
	return sha256.Sum256(append(b, toolUse...))
}

// Judged is what was answered to a call before it ran.
type Judged struct {
	Kind      verdict.Kind
	Input     [sha256.Size]byte // of tool and input in canonical form; not for denials
	Text      Input             // what Input is the digest of, until Digest
	Lowerings uint64            // the lease's count then
	Mutator   bool
	at        clock.Instant
	nth       uint64
}

// Input is what a tool was called with.
type Input struct {
	Tool string
	JSON []byte
}

// verdicts are the newest answers by call, the oldest dropped for room.
type verdicts struct {
	byCall   map[CallKey]Judged
	order    []asked // in the order of asking
	asked    uint64  // calls so far
	unparsed int     // denials of payloads that named no call
}

// asked is one place in the order: a key that was asked again since has another.
type asked struct {
	key CallKey
	nth uint64
}

// Remember keeps the answer to a call; the latest counts.
func (s *Session) Remember(key CallKey, j Judged, now clock.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &s.verdicts
	if v.byCall == nil {
		v.byCall = map[CallKey]Judged{}
	}
	v.asked++
	j.at, j.nth = now, v.asked
	v.byCall[key] = j
	v.order = append(v.order, asked{key, v.asked})
	for first := v.order[0]; len(v.order) > keepVerdicts || now.Sub(v.byCall[first.key].at) > keepFor; first = v.order[0] {
		v.order = v.order[1:]
		if v.byCall[first.key].nth == first.nth {
			delete(v.byCall, first.key)
		}
		if len(v.order) == 0 {
			break
		}
	}
}

// Digest replaces the text of a remembered call by its digest, which is made
// without the session's lock.
func (s *Session) Digest(key CallKey, digest func(Input) [sha256.Size]byte) {
	s.mu.Lock()
	j := s.verdicts.byCall[key]
	s.mu.Unlock()
	if j.Text.Tool == "" {
		return
	}
	sum := digest(j.Text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, known := s.verdicts.byCall[key]; known && now.nth == j.nth {
		now.Input, now.Text = sum, Input{}
		s.verdicts.byCall[key] = now
	}
}

// Unparsed notes a denial whose payload named no call: a call that runs all the
// same can't be told from one that never asked.
func (s *Session) Unparsed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verdicts.unparsed++
}

// Recall takes what was answered to a call that has run by now. Where nothing
// is known, excused says that there is an innocent reason.
func (s *Session) Recall(key CallKey) (j Judged, known, excused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &s.verdicts
	if j, known = v.byCall[key]; known {
		delete(v.byCall, key)
		return j, true, false
	}
	if v.unparsed > 0 {
		v.unparsed--
		return Judged{}, false, true
	}
	return Judged{}, false, false
}

// Lock keeps promotion from the session until an operator clears the alarm.
func (s *Session) Lock(alarm string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alarm == "" {
		s.alarm = alarm
	}
}

// Alarm is what locks promotion, empty when nothing does.
func (s *Session) Alarm() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alarm
}

// ClearAlarm unlocks promotion.
func (s *Session) ClearAlarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alarm = ""
}
