//go:build kills

package kills

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"leaseguard.internal/broker/lease"
)

// The sequential specification of one session's lease, for the checker.

// input is what was asked of one session. A restart is asked of all.
type input struct {
	session string
	do      string
	token   byte // its number in the session: of promote and verify
}

// What can be asked.
const (
	verify    = "verify"
	promote   = "promote"
	renew     = "renew"
	authorize = "authorize"
	revoke    = "revoke"
	restart   = "restart"
)

// output is what came of it.
type output struct {
	out  string
	code string
}

// state is the lease's, with what has become of each token that isn't fresh. A
// token that may be used is what the next look at it says: so there are few
// states, where each way that it may have gone would double them.
type state struct {
	lease lease.State
	token byte   // of a pending cycle; 0: one that nobody was told
	marks string // by token; missing ones are fresh
}

const (
	fresh byte = iota
	used
	maybe // used or fresh
)

func (s state) mark(token byte) byte {
	if int(token) < len(s.marks) {
		return s.marks[token]
	}
	return fresh
}

func (s state) with(token, mark byte) state {
	marks := append([]byte(s.marks), make([]byte, max(int(token)+1-len(s.marks), 0))...)
	marks[token] = mark
	s.marks = strings.TrimRight(string(marks), "\x00")
	return s
}

func (s state) down() state { s.lease, s.token = lease.Unverified, 0; return s }

func (s state) pending(token byte) state { s.lease, s.token = lease.Pending, token; return s }

func (s state) up() state { s.lease, s.token = lease.Verified, 0; return s }

// specification is a lease whose requests happen at one moment each. A kill
// leaves open whether what was under way has happened; that the answers of the
// next broker fit is what is checked.
var specification = porcupine.NondeterministicModel{
	Init: func() []any { return []any{state{}} },
	Step: func(s, in, out any) []any {
		var next []any
		for _, n := range step(s.(state), in.(input), out.(output)) {
			next = append(next, n)
		}
		return next
	},
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		by := map[string][]porcupine.Operation{}
		for _, op := range history {
			id := op.Input.(input).session
			by[id] = append(by[id], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range by {
			parts = append(parts, part)
		}
		return parts
	},
}

// step answers the states that may follow; none: that can't be.
func step(s state, in input, out output) []state {
	only := func(fits bool, next ...state) []state {
		if !fits {
			return nil
		}
		return next
	}
	mine := s.lease == lease.Pending && s.token == in.token
	switch in.do + " " + out.out {
	case "restart passed":
		return []state{s.down()}
	case "revoke passed":
		return []state{s.down()}
	case "revoke unknown":
		return []state{s, s.down()}
	case "verify passed":
		return []state{s.pending(in.token)}
	case "verify refused": // overtaken by what lowered the lease
		return []state{s}
	case "verify unknown":
		return []state{s, s.pending(0)}
	case "promote passed":
		return only(mine, s.with(in.token, used).up())
	case "promote refused":
		switch {
		case out.code == "token_used":
			return only(s.mark(in.token) != fresh, s.with(in.token, used).down())
		case mine || s.mark(in.token) == used:
			return nil
		case strings.HasPrefix(out.code, "lease_"): // it may have been lowered while it was written
			return []state{s.with(in.token, maybe)}
		}
		return []state{s.with(in.token, fresh)}
	case "promote unknown":
		switch {
		case mine:
			return []state{s.with(in.token, maybe), s.with(in.token, used).up()}
		case s.mark(in.token) != fresh:
			return []state{s, s.down()}
		}
		return []state{s}
	case "renew passed":
		return only(s.lease == lease.Verified, s)
	case "renew refused":
		return only(s.lease != lease.Verified || out.code == "lease_revoked", s)
	case "renew unknown":
		return []state{s, s.down()}
	case "authorize passed":
		return only(s.lease == lease.Verified, s)
	case "authorize refused":
		return only(s.lease != lease.Verified, s)
	}
	return nil
}

// check judges a history, one session after the other. That it can't be judged in
// time is a failure too. stuck tells how far an order was found that fits.
func check(history []porcupine.Operation) (got porcupine.CheckResult, stuck string) {
	model := specification.ToModel()
	for _, part := range specification.Partition(history) {
		got, info := porcupine.CheckOperationsVerbose(model, part, time.Minute)
		if got != porcupine.Ok {
			return got, explain(part, info)
		}
	}
	return porcupine.Ok, ""
}

// explain shows the longest order that was found, and what didn't fit after it.
func explain(part []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var best []porcupine.Operation
	for _, found := range info.PartialLinearizationsOperations() {
		for _, order := range found {
			if len(order) > len(best) {
				best = order
			}
		}
	}
	line := func(op porcupine.Operation) string {
		in, out := op.Input.(input), op.Output.(output)
		return fmt.Sprintf("%12d %12d  client %d: %s %d: %s %s\n", op.Call, op.Return, op.ClientId, in.do, in.token, out.out, out.code)
	}
	taken := map[porcupine.Operation]bool{}
	text := fmt.Sprintf("%d of %d answers have an order; its end is\n", len(best), len(part))
	for i, op := range best {
		taken[op] = true
		if i >= len(best)-12 {
			text += line(op)
		}
	}
	text += "and none of these fits next:\n"
	rest := slices.DeleteFunc(slices.Clone(part), func(op porcupine.Operation) bool { return taken[op] })
	slices.SortFunc(rest, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	for _, op := range rest[:min(len(rest), clients+1)] {
		text += line(op)
	}
	return text
}

// TestCheckerBites: histories that break a promise aren't linearizable.
func TestCheckerBites(t *testing.T) {
	type op struct {
		do        string
		token     byte
		out, code string
		from, to  int64
	}
	raised := []op{{verify, 1, passed, "", 1, 2}, {promote, 1, passed, "", 3, 4}}
	for name, tt := range map[string]struct {
		then []op
		want porcupine.CheckResult
	}{
		"a change under the lease":                       {[]op{{authorize, 0, passed, "", 5, 6}}, porcupine.Ok},
		"a change after a revocation":                    {[]op{{revoke, 0, passed, "", 5, 6}, {authorize, 0, passed, "", 7, 8}}, porcupine.Illegal},
		"a change beside a revocation":                   {[]op{{revoke, 0, passed, "", 5, 8}, {authorize, 0, passed, "", 6, 9}}, porcupine.Ok},
		"a change after a restart":                       {[]op{{restart, 0, passed, "", 5, 6}, {authorize, 0, passed, "", 7, 8}}, porcupine.Illegal},
		"a change after a revocation of unknown outcome": {[]op{{revoke, 0, unknown, "", 5, 6}, {authorize, 0, passed, "", 7, 8}}, porcupine.Ok},
		"a token twice":                                  {[]op{{promote, 1, passed, "", 5, 6}}, porcupine.Illegal},
		"a token after its use":                          {[]op{{promote, 1, refused, "token_used", 5, 6}, {authorize, 0, refused, "lease_revoked", 7, 8}}, porcupine.Ok},
		"the use of a used token costs nothing":          {[]op{{promote, 1, refused, "token_used", 5, 6}, {authorize, 0, passed, "", 7, 8}}, porcupine.Illegal},
		"a superseded token":                             {[]op{{verify, 2, passed, "", 5, 6}, {verify, 3, passed, "", 7, 8}, {promote, 2, passed, "", 9, 10}}, porcupine.Illegal},
		"a token of the broker before":                   {[]op{{verify, 2, passed, "", 5, 6}, {restart, 0, passed, "", 7, 8}, {promote, 2, passed, "", 9, 10}}, porcupine.Illegal},
		"a renewal that raises":                          {[]op{{revoke, 0, passed, "", 5, 6}, {renew, 0, passed, "", 7, 8}}, porcupine.Illegal},
		"a promotion of unknown outcome, and its lease":  {[]op{{verify, 2, passed, "", 5, 6}, {promote, 2, unknown, "", 7, 20}, {authorize, 0, passed, "", 8, 9}}, porcupine.Ok},
		"a promotion of unknown outcome, then a restart": {[]op{{verify, 2, passed, "", 5, 6}, {promote, 2, unknown, "", 7, 8}, {restart, 0, passed, "", 9, 10}, {authorize, 0, passed, "", 11, 12}}, porcupine.Illegal},
		"a denial under the lease":                       {[]op{{authorize, 0, refused, "lease_unverified", 5, 6}}, porcupine.Illegal},
	} {
		t.Run(name, func(t *testing.T) {
			var history []porcupine.Operation
			for _, o := range append(append([]op{}, raised...), tt.then...) {
				history = append(history, porcupine.Operation{Input: input{"s", o.do, o.token}, Call: o.from, Output: output{o.out, o.code}, Return: o.to})
			}
			if got, stuck := check(history); got != tt.want {
				t.Errorf("%s, want %s: %s", got, tt.want, stuck)
			}
		})
	}
}
