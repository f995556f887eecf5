package failpoint

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

const variable = "GUARD_FAILPOINT"

const (
	kindKill  = "kill"
	kindError = "error"
	kindPanic = "panic"
	kindSleep = "sleep"
)

type action struct {
	kind  string
	sleep time.Duration
	at    int // 0: each time
}

// set is a parsed GUARD_FAILPOINT with the count of each point so far.
type set struct {
	mu     sync.Mutex
	points map[string]action
	hits   map[string]int
}

func parse(spec string) (*set, error) {
	s := &set{points: map[string]action{}, hits: map[string]int{}}
	if spec == "" {
		return s, nil
	}
	for part := range strings.SplitSeq(spec, ",") {
		name, what, ok := strings.Cut(part, ":")
		if !ok || name == "" {
			return nil, fmt.Errorf("reading %s: %q isn't name:action", variable, part)
		}
		if _, twice := s.points[name]; twice {
			return nil, fmt.Errorf("reading %s: point %q is named twice", variable, name)
		}
		a, err := parseAction(what)
		if err != nil {
			return nil, fmt.Errorf("reading %s: point %q: %w", variable, name, err)
		}
		s.points[name] = a
	}
	return s, nil
}

func parseAction(what string) (action, error) {
	var a action
	what, count, counted := strings.Cut(what, "@")
	if counted {
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 {
			return action{}, fmt.Errorf("count %q isn't a positive number", count)
		}
		a.at = n
	}
	kind, arg, hasArg := strings.Cut(what, "=")
	switch {
	case kind == kindSleep && hasArg:
		d, err := time.ParseDuration(arg)
		if err != nil || d < 0 {
			return action{}, fmt.Errorf("sleep %q isn't a duration", arg)
		}
		a.sleep = d
	case (kind == kindKill || kind == kindError || kind == kindPanic) && !hasArg:
	default:
		return action{}, fmt.Errorf("action %q isn't one of kill, error, panic, sleep=DURATION", what)
	}
	a.kind = kind
	return a, nil
}

// reached counts a visit to a point and says what to do there.
func (s *set) reached(name string) (action, bool) {
	a, ok := s.points[name]
	if !ok {
		return action{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hits[name]++
	return a, a.at == 0 || a.at == s.hits[name]
}
