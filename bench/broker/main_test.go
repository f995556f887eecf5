package main

import (
	"errors"
	"slices"
	"testing"
)

func TestLastLine(t *testing.T) {
	r := ratios{authorize: 1.5, durable: 0.81, audit1: 0.9, audit64: 14.321}
	if got, want := r.String(), "ratio authorize=1.50 durable=0.81 audit1=0.90 audit64=14.32"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestLimits: each ratio alone fails the run, in its own direction.
func TestLimits(t *testing.T) {
	good := ratios{maxAuthorize, minDurable, minAudit1, minAudit64}
	if !good.met() {
		t.Error("the limits themselves don't meet them")
	}
	for name, bad := range map[string]ratios{
		"authorize": {maxAuthorize + .01, minDurable, minAudit1, minAudit64},
		"durable":   {maxAuthorize, minDurable - .01, minAudit1, minAudit64},
		"audit1":    {maxAuthorize, minDurable, minAudit1 - .01, minAudit64},
		"audit64":   {maxAuthorize, minDurable, minAudit1, minAudit64 - .01},
	} {
		if bad.met() {
			t.Errorf("%s alone doesn't fail", name)
		}
	}
}

// TestRound: both take turns, each is as often first, and a failure ends it.
func TestRound(t *testing.T) {
	var order []byte
	kind := func(name byte) func() (slice, error) {
		return func() (slice, error) {
			order = append(order, name)
			return slice{Took: []int64{int64(name)}, ForNS: 1}, nil
		}
	}
	a, b, err := round(4, kind('a'), kind('b'))
	if err != nil || string(order) != "abbaabba" || len(a.Took) != 4 || len(b.Took) != 4 || slices.Contains(a.Took, 'b') || a.ForNS != 4 {
		t.Errorf("order %s: %+v, %+v, %v", order, a, b, err)
	}
	broken := errors.New("broken")
	if _, _, err := round(1, kind('a'), func() (slice, error) { return slice{}, broken }); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

func TestQuantile(t *testing.T) {
	values := []int64{5, 1, 4, 2, 3}
	if quantile(values, .5) != 3 || quantile(values, .99) != 5 || quantile(values, 0) != 1 || values[0] != 5 {
		t.Errorf("quantiles of %v", values)
	}
}

// TestProcessors: no processor is lost, and only one alone is both sides'.
func TestProcessors(t *testing.T) {
	s, err := processors()
	if err != nil || s.client.Count() != 1 || s.servers.Count() == 0 {
		t.Fatalf("client has %d, servers have %d of %d, %v", s.client.Count(), s.servers.Count(), s.all.Count(), err)
	}
	if n := s.all.Count(); n > 1 && s.servers.Count() != n-1 {
		t.Errorf("servers have %d of %d", s.servers.Count(), n)
	}
}
