package checkpoint

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"sync"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/zerto"
)

// insert is one checkpoint on its way, for all the calls that wait for it.
// sealed, checkpoint and refusal may be read once done is closed.
type insert struct {
	group *group // identifier and name of the VPG
	tag   string
	done  chan struct{}

	waiters int // under the service's lock

	sealed     clock.Instant // when it took in its last call
	checkpoint zerto.Checkpoint
	refusal    *Refusal
	requests   sync.WaitGroup // its own, which may outlast its outcome
}

// lane is a VPG with an insert in flight. Calls that come meanwhile share next,
// which isn't sent before running has ended.
type lane struct{ running, next *insert }

// join returns an insert that begins after this moment, so that its checkpoint
// can't be older than the call that joins.
func (s *Service) join(g *group, call string) *insert {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[g.id]
	if l != nil && l.next != nil {
		l.next.waiters++
		return l.next
	}
	in := &insert{group: &group{id: g.id, name: g.name}, tag: newTag(call), done: make(chan struct{}), waiters: 1}
	switch {
	case s.closed:
		in.refusal = g.failed("the broker is stopping", "guard broker start")
		close(in.done)
	case l == nil:
		s.lanes[g.id] = &lane{running: in}
		s.start(in)
	default:
		l.next = in
	}
	return in
}

// leave ends a call's interest.
func (s *Service) leave(in *insert) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in.waiters--
}

// wanted reports whether any call waits for the insert, right before it would
// be sent.
func (s *Service) wanted(in *insert) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return in.waiters > 0
}

// start runs an insert, which takes in no call from here on. The caller holds
// the lock.
func (s *Service) start(in *insert) {
	s.work.Add(1)
	in.sealed = s.clk.Now()
	go func() {
		defer s.work.Done()
		// It has the time of a whole call from here: its calls may end sooner.
		ctx, cancel := context.WithTimeout(s.ctx, s.opt.Timeout)
		defer cancel()
		in.checkpoint, in.refusal = s.confirm(ctx, in)
		close(in.done)
		s.follow(in)
		in.requests.Wait()
	}()
}

// follow lets the next insert of the VPG go.
func (s *Service) follow(in *insert) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[in.group.id]
	if l.next == nil || s.closed {
		if l.next != nil {
			l.next.refusal = in.group.failed("the broker is stopping", "guard broker start")
			close(l.next.done)
		}
		delete(s.lanes, in.group.id)
		return
	}
	l.running, l.next = l.next, nil
	s.start(l.running)
}

// wait returns nil when the insert is confirmed.
func (in *insert) wait(ctx context.Context, g *group) *Refusal {
	select {
	case <-in.done:
		return in.refusal
	default:
	}
	select {
	case <-in.done:
		return in.refusal
	case <-ctx.Done():
		return ended(ctx, g.object(), "its checkpoint wasn't confirmed in time; what is under way there is watched to its end")
	}
}

const maxCallName = 24

// newTag names the call for people; 128 random bits make it ours alone.
func newTag(call string) string {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // never fails
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return -1
	}, call)
	if name == "" {
		name = "call"
	}
	return "guard:" + name[:min(len(name), maxCallName)] + ":" + hex.EncodeToString(nonce[:])
}
