//go:build failpoint

package broker

import (
	"slices"
	"time"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/internal/agenttest"
	"leaseguard.internal/internal/clock"
)

// model is what the broker ought to be, in a map and some rules. It knows no
// disk, no socket and no process: what a crash leaves of it is nothing but ids,
// generations and gates.
type model struct {
	sessions map[string]*modelled
	order    []string          // ids of sessions as they came, also of those that have gone
	ended    map[string]uint64 // ids that can be resumed, with their generation
	minted   []string          // all tokens
	owner    map[string]string // the session of each token
	used     map[string]bool   // consumed, by a promotion or a failed one
}

type modelled struct {
	agent      *agenttest.Agent
	generation uint64
	seen       bool // its gate was heard
	state      lease.State
	token      string        // of the pending cycle
	ttl        time.Duration // of cycle and lease
	until      clock.Instant // end of the lease, or of the token
}

func newModel() *model {
	return &model{sessions: map[string]*modelled{}, ended: map[string]uint64{}, owner: map[string]string{}, used: map[string]bool{}}
}

// ids are the sessions as they came, and endedIDs those that have gone.
func (m *model) ids() []string {
	return slices.DeleteFunc(slices.Clone(m.order), func(id string) bool { return m.sessions[id] == nil })
}

func (m *model) endedIDs() []string {
	return slices.DeleteFunc(slices.Clone(m.order), func(id string) bool { return m.ended[id] == 0 })
}

func (m *model) launched(id string, s *modelled) {
	if !slices.Contains(m.order, id) {
		m.order = append(m.order, id)
	}
	delete(m.ended, id)
	m.sessions[id] = s
}

// at applies an end that has come.
func (s *modelled) at(now clock.Instant) *modelled {
	if s.state != lease.Unverified && now >= s.until {
		s.lower()
	}
	return s
}

func (s *modelled) lower() { s.state, s.token = lease.Unverified, "" }

func ttlFits(ttl time.Duration) bool { return ttl > 0 && ttl <= lease.MaxTTL }

// verify begins a cycle.
func (m *model) verify(id, token string, ttl time.Duration, now clock.Instant) {
	s := m.sessions[id]
	s.state, s.ttl, s.token, s.until = lease.Pending, ttl, token, now.Add(lease.TokenLife)
	m.minted, m.owner[token] = append(m.minted, token), id
}

// promote presents a token to the session id; it answers whether it is granted.
func (m *model) promote(id, token string, now clock.Instant) bool {
	s := m.sessions[id].at(now)
	switch {
	case s.state == lease.Pending && s.token == token:
		m.used[token] = true
		if !s.seen {
			s.lower()
			return false
		}
		s.grant(now)
		return true
	case m.used[token] && m.sessions[m.owner[token]] != nil:
		m.sessions[m.owner[token]].lower() // somebody else may have seen it
	}
	return false
}

func (s *modelled) grant(now clock.Instant) {
	s.state, s.token, s.until = lease.Verified, "", now.Add(s.ttl)
}

// restarted takes all authority, also what tokens could give.
func (m *model) restarted() {
	for _, s := range m.sessions {
		s.lower()
	}
}
