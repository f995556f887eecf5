package zvmsim

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// everyVPG stands for all VPGs that have no faults of their own.
const everyVPG = "*"

// ErrNoVPG is a protection group that the estate doesn't have.
var ErrNoVPG = errors.New("it isn't in the estate")

// build makes the run-time state of the estate.
func (s *Server) build() {
	now := s.clk.Now()
	for k, spec := range s.estate.VPGs {
		g := &group{spec: spec}
		for i := range s.estate.VMs {
			if slices.Contains(s.estate.VMs[i].VPGs, spec.Name) {
				g.vms = append(g.vms, &s.estate.VMs[i])
			}
		}
		g.fill(s, k, now)
		s.groups = append(s.groups, g)
	}
}

// checkBehaviour also checks the VPG names in it.
func (s *Server) checkBehaviour(b Behaviour) error {
	if err := b.check(); err != nil {
		return err
	}
	for name, f := range b.Faults {
		if err := s.known(name, f); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) known(vpg string, f Faults) error {
	names := []string{f.TagOn}
	if vpg != everyVPG {
		names = append(names, vpg)
	}
	for _, name := range names {
		exists := slices.ContainsFunc(s.estate.VPGs, func(g VPG) bool { return g.Name == name })
		if !exists && name != "" {
			return fmt.Errorf("vpg %q: %w, which has %s", name, ErrNoVPG, strings.Join(s.estate.vpgNames(), ", "))
		}
	}
	return f.check()
}

// settle brings every journal up to now, before something changes how it goes
// on: what is past keeps the clock and the faults that it was made with.
func (s *Server) settle() {
	for _, g := range s.groups {
		g.advance(s, s.clk.Now())
	}
}

func (s *Server) restore() {
	s.now = s.initial.clone()
	s.counts = make([]int, len(s.now.Answers))
}

// Set replaces the faults of a VPG; "*" or "" are those of every VPG that has
// none of its own. The zero Faults are no faults at all. Inserts that were accepted go on
// as they were planned. A mistake is an error and changes nothing.
func (s *Server) Set(vpg string, f Faults) error {
	if vpg == "" {
		vpg = everyVPG
	}
	if err := s.known(vpg, f); err != nil {
		return fmt.Errorf("setting faults: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Latency = maps.Clone(f.Latency)
	s.settle()
	s.now.Faults[vpg] = f
	return nil
}

// Clear ends the faults of a VPG, so that those of "*" hold for it again.
func (s *Server) Clear(vpg string) error {
	if err := s.known(vpg, Faults{}); err != nil {
		return fmt.Errorf("clearing faults: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	delete(s.now.Faults, vpg)
	return nil
}

// ClearAll ends all faults.
func (s *Server) ClearAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	clear(s.now.Faults)
}

// SetLatency puts the given times over the server's.
func (s *Server) SetLatency(l Latency) error {
	if err := l.check(); err != nil {
		return fmt.Errorf("setting latency: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.now.Latency, l)
	return nil
}

// Behaviour returns how the server acts now.
func (s *Server) Behaviour() Behaviour {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now.clone()
}

// SetSettings replaces the server's settings.
func (s *Server) SetSettings(set Settings) error {
	if err := set.check(); err != nil {
		return fmt.Errorf("setting settings: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	s.now.Settings = set
	return nil
}

// Answer adds an answer for chosen requests, behind those that are there.
func (s *Server) Answer(a Answer) error {
	if err := a.check(); err != nil {
		return fmt.Errorf("adding an answer: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Answers = append(s.now.Answers, a)
	s.counts = append(s.counts, 0)
	return nil
}

// ClearAnswers removes every answer.
func (s *Server) ClearAnswers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Answers, s.counts = nil, nil
}

// Reset goes back to the behaviour of the start and forgets what was recorded.
// Checkpoints, tasks and tokens stay.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	s.restore()
	s.forget()
}

// Resync removes all checkpoints of a VPG, as a change that synchronises it
// anew does.
func (s *Server) Resync(vpg string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groupByName(vpg)
	if g == nil {
		return fmt.Errorf("removing checkpoints of vpg %q: %w", vpg, ErrNoVPG)
	}
	g.advance(s, s.clk.Now())
	g.points = nil
	return nil
}

// Plant puts a tagged checkpoint of the given age into a VPG and returns its
// id: a tag that nobody asked for, or one from before.
func (s *Server) Plant(vpg, tag string, age time.Duration) (id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groupByName(vpg)
	if g == nil {
		return "", fmt.Errorf("planting a checkpoint in vpg %q: %w", vpg, ErrNoVPG)
	}
	now := s.clk.Now()
	g.advance(s, now)
	g.add(s, now.Add(-age), tag, true)
	return strconv.FormatInt(g.lastID, 10), nil
}

func headerNames(h http.Header) []string { return slices.Sorted(maps.Keys(h)) }
