package checkpoint

import (
	"context"
	"sync"
	"time"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/zerto"
)

const (
	cacheTime  = 30 * time.Second // how long a look-up is believed
	maxCache   = 1024             // look-ups that are kept
	maxEntries = 4096             // checkpoints that are kept for reuse
)

// cache keeps the answers to look-ups for cacheTime.
type cache[K comparable, V any] struct {
	clk clock.Clock
	mu  sync.Mutex
	all map[K]cached[V]
}

type cached[V any] struct {
	value V
	end   clock.Instant
}

func newCache[K comparable, V any](clk clock.Clock) *cache[K, V] {
	return &cache[K, V]{clk: clk, all: map[K]cached[V]{}}
}

func (c *cache[K, V]) get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, ok := c.all[key]
	if !ok || c.clk.Now() >= entry.end {
		return value, false
	}
	return entry.value, true
}

func (c *cache[K, V]) put(key K, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) >= maxCache {
		clear(c.all) // costs one look-up each
	}
	c.all[key] = cached[V]{value, c.clk.Now().Add(cacheTime)}
}

// memory holds the newest confirmed checkpoint of each session and VPG, for
// reuse. Its lock covers map operations alone, so that forgetting a session
// never waits for the ZVM.
type memory struct {
	clk clock.Clock
	mu  sync.Mutex
	all map[string]map[string]confirmed // by session, then by VPG identifier
	n   int
}

type confirmed struct {
	tag        string
	checkpoint zerto.Checkpoint
	lowered    uint64        // the session's revocation counter then
	taken      clock.Instant // before it was made, so an age by it is never too low
}

func newMemory(clk clock.Clock) *memory {
	return &memory{clk: clk, all: map[string]map[string]confirmed{}}
}

func (m *memory) put(req Request, g *group, taken clock.Instant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.n >= maxEntries {
		clear(m.all) // costs one insert each
		m.n = 0
	}
	if m.all[req.Session] == nil {
		m.all[req.Session] = map[string]confirmed{}
	}
	before := len(m.all[req.Session])
	m.all[req.Session][g.id] = confirmed{g.tag, g.checkpoint, req.Lowered, taken}
	m.n += len(m.all[req.Session]) - before
}

// get returns what the request may reuse for g, if it is young enough and
// nothing has lowered the lease since.
func (m *memory) get(req Request, g *group) (confirmed, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.all[req.Session][g.id]
	ok = ok && g.reuse > 0 && c.lowered == req.Lowered && m.clk.Now().Sub(c.taken) <= g.reuse
	return c, ok
}

func (m *memory) drop(session, vpg string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.all[session])
	delete(m.all[session], vpg)
	m.n -= before - len(m.all[session])
}

func (m *memory) forget(session string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n -= len(m.all[session])
	delete(m.all, session)
}

// reuse gives g a confirmed checkpoint that is still listed. One that has
// vanished denies: its VPG is being synchronised anew, and whoever relied on
// rewinding to it should learn that. When the list can't be read a new one is
// taken.
func (s *Service) reuse(ctx context.Context, req Request, g *group) *Refusal {
	c, ok := s.memory.get(req, g)
	if !ok {
		return nil
	}
	list, err := s.zvm.Checkpoints(ctx, g.id, c.checkpoint.Time.Add(-margin))
	if err != nil {
		return nil //nolint:nilerr // the insert that follows meets the error itself
	}
	for _, cp := range list {
		if cp.ID == c.checkpoint.ID && cp.Tag == c.tag && cp.Time.Equal(c.checkpoint.Time) {
			g.tag, g.checkpoint, g.reused = c.tag, c.checkpoint, true
			return nil
		}
	}
	s.memory.drop(req.Session, g.id)
	return &Refusal{
		Code: verdict.CheckpointGone, Object: g.object(),
		Cause: "checkpoint " + verdict.Object(c.tag) + ", which this call may reuse, is no longer in the journal",
		Next:  "repeat the call, which takes a new checkpoint",
	}
}
