package zvmsim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Span is a duration whose text form ("90s") is used in JSON and flags.
type Span time.Duration

// MarshalText writes the span as time.Duration does.
func (s Span) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (s *Span) UnmarshalText(b []byte) error {
	d, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("reading duration %q: want a number with a unit, such as 200ms", b)
	}
	*s = Span(d)
	return nil
}

// Range is a duration drawn anew each time, evenly between two ends. Its text
// form is "200ms" or "100ms..300ms".
type Range struct{ Min, Max time.Duration }

// Fixed is the range that always gives d.
func Fixed(d time.Duration) Range { return Range{d, d} }

func (r Range) draw() time.Duration {
	if r.Max <= r.Min {
		return r.Min
	}
	return r.Min + rand.N(r.Max-r.Min+1) //nolint:gosec // a simulated delay is no secret
}

// MarshalText writes the range's text form.
func (r Range) MarshalText() ([]byte, error) {
	if r.Min == r.Max {
		return []byte(r.Min.String()), nil
	}
	return []byte(r.Min.String() + ".." + r.Max.String()), nil
}

// UnmarshalText reads the range's text form.
func (r *Range) UnmarshalText(b []byte) error {
	low, high, ranged := strings.Cut(string(b), "..")
	if !ranged {
		high = low
	}
	var a, z Span
	if err := a.UnmarshalText([]byte(low)); err != nil {
		return err
	}
	if err := z.UnmarshalText([]byte(high)); err != nil {
		return err
	}
	if z < a {
		return fmt.Errorf("reading range %q: its end is before its start", b)
	}
	*r = Range{time.Duration(a), time.Duration(z)}
	return nil
}
