package policy

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/policysim"
)

// An approval that takes longer than a call may wait stays one card: the next call
// of the same tool and input, in any order of its keys, comes back to it.
func TestApprovalStaysOpen(t *testing.T) {
	one, same, other := toolCall("Bash", `{"command":"id","n":1}`), toolCall("Bash", `{ "n": 1, "command": "id" }`), toolCall("Bash", `{"command":"ls"}`)
	in(t, nil, func(w *world) {
		w.sim.Policies = []policysim.Policy{policysim.Always("p", policysim.Ask, "really?")}
		w.denies(one, unavailable, "approval still open at \"127.0.0.1:1\"", "within 10 minutes")
		synctest.Wait() // until the server has seen that nobody waits
		cards := w.sim.Cards()
		if len(cards) != 1 || !w.sim.Resolve(cards[0], "accept") {
			t.Fatalf("cards %v", cards)
		}
		w.within(0, func() { w.passes(same) })
		w.asked(2)
		w.denies(one, unavailable) // that verdict is used up
		w.denies(other, unavailable)
		if cards := w.sim.Cards(); len(cards) != 2 {
			t.Errorf("cards %v for two calls", cards)
		}
	})
	t.Run("while it waits", func(t *testing.T) {
		in(t, nil, func(w *world) {
			w.sim.Policies = []policysim.Policy{policysim.Always("p", policysim.Ask, "really?")}
			for action, denied := range map[string]bool{"accept": false, "decline": true, "cancel": true} {
				done := make(chan Opinion)
				go func() { done <- w.ask(one) }()
				synctest.Wait()
				w.sim.Resolve(w.sim.Cards()[0], action)
				if o := <-done; o.Denied != denied {
					t.Errorf("%s: %+v", action, o)
				}
			}
		})
	})
	t.Run("for ten minutes", func(t *testing.T) {
		in(t, nil, func(w *world) {
			w.sim.Fail(policysim.Hang(), policysim.Hang())
			w.denies(one, unavailable)
			time.Sleep(keepOpen)
			w.denies(one, unavailable)
			if s := w.sim.Seen(); s[0].ID == s[1].ID {
				t.Error("the id is used again after ten minutes")
			}
		})
	})
	t.Run("over a reload", func(t *testing.T) {
		in(t, nil, func(w *world) {
			w.sim.Fail(policysim.Hang())
			w.denies(one, unavailable)
			next := &Evaluator{cfg: w.cfg, host: w.host, clock: w.clock, http: w.http, tokens: w.tokens, open: newOpen(w.clock), breakers: newBreakers(w.clock)}
			next.Inherit(w.Evaluator)
			next.Inherit(nil)
			w.Evaluator = next
			w.passes(one)
			w.asked(2)
			moved := &Evaluator{cfg: w.cfg, open: newOpen(w.clock)}
			if moved.cfg.URL += "/v2"; moved.cfg.URL != w.cfg.URL {
				moved.Inherit(w.Evaluator)
			}
			if moved.open == w.open {
				t.Error("another server's evaluations are taken over")
			}
		})
	})
	t.Run("of another session", func(t *testing.T) {
		in(t, nil, func(w *world) {
			w.sim.Fail(policysim.Hang())
			w.denies(one, unavailable)
			foreign := one
			foreign.Session = "s2"
			w.passes(foreign)
			if s := w.sim.Seen(); s[0].ID == s[1].ID || s[1].Session != "s2" {
				t.Errorf("one session asks by another's id: %q %q", s[0].ID, s[1].ID)
			}
		})
	})
	t.Run("of two calls at once", func(t *testing.T) {
		in(t, nil, func(w *world) {
			w.sim.Fail(policysim.Hang(), policysim.Hang())
			done := make(chan Opinion)
			for range 2 {
				go func() { done <- w.ask(one) }()
			}
			<-done
			<-done
			if s := w.sim.Seen(); s[0].ID == s[1].ID {
				t.Error("two calls ask by one id at once")
			}
			w.passes(one)
			w.passes(one)
			if s := w.sim.Seen(); s[2].ID != s[0].ID && s[2].ID != s[1].ID {
				t.Error("the open evaluation is forgotten")
			} else if s[3].ID == s[2].ID {
				t.Error("an answered evaluation is used again")
			}
		})
	})
	t.Run("asked for by two at once", func(t *testing.T) {
		in(t, nil, func(w *world) {
			w.sim.Fail(policysim.Hang())
			w.denies(one, unavailable)
			w.sim.Fail(policysim.Late(time.Second), policysim.Late(time.Second))
			done := make(chan Opinion)
			for range 2 {
				go func() { done <- w.ask(one) }()
			}
			<-done
			<-done
			if s := w.sim.Seen(); s[1].ID == s[2].ID || s[1].ID != s[0].ID && s[2].ID != s[0].ID {
				t.Errorf("asked by %q, %q, then %q", s[0].ID, s[1].ID, s[2].ID)
			}
		})
	})
	t.Run("many", func(t *testing.T) {
		in(t, func(c *config.PolicyServer) { c.Budget = time.Second }, func(w *world) {
			w.sim.Policies = []policysim.Policy{policysim.Always("p", policysim.Ask, "?")}
			for i := range 2 * maxOpen {
				w.ask(toolCall("Bash", fmt.Sprintf(`{"n":%d}`, i)))
				time.Sleep(longestRest)
			}
			if n := len(w.open.all["s1"]); n > maxOpen {
				t.Errorf("%d are remembered", n)
			}
		})
	})
}

// A dead server costs the first call its budget, and the next ones nothing. It is
// tried again by one call.
func TestBreaker(t *testing.T) {
	in(t, nil, func(w *world) {
		for range 12 {
			w.down = append(w.down, 0)
		}
		w.denies(bash, unavailable, "no connection")
		w.within(0, func() { w.denies(bash, unavailable, "was not asked", "connection refused", "tried again in 10 s") })
		time.Sleep(firstRest)
		done := make(chan Opinion)
		go func() { done <- w.ask(bash) }()
		synctest.Wait()
		w.within(0, func() { w.denies(toolCall("Edit", "{}"), unavailable, "another call is trying it now") })
		<-done
		w.within(0, func() { w.denies(bash, unavailable, "tried again in 20 s") })
		w.down = nil
		time.Sleep(2 * firstRest)
		w.passes(bash)
		w.passes(bash)
	})
	t.Run("one session's trouble is its own", func(t *testing.T) {
		in(t, nil, func(w *world) {
			for range enough {
				w.sim.Fail(policysim.Hang())
				w.denies(bash, unavailable, "approval still open")
			}
			other := toolCall("Edit", "{}")
			w.within(0, func() { w.denies(other, unavailable, "was not asked") })
			foreign := other
			foreign.Session = "s2"
			w.passes(foreign)
			w.within(0, func() { w.passes(bash) }) // it comes back to its own approval
			w.within(0, func() { w.passes(other) })
		})
	})
	t.Run("and ends", func(t *testing.T) {
		in(t, nil, func(w *world) {
			for range enough {
				w.sim.Fail(policysim.Hang())
				w.denies(bash, unavailable, "approval still open")
			}
			time.Sleep(firstRest)
			w.passes(toolCall("Edit", "{}"))
		})
	})
	t.Run("answers are no trouble", func(t *testing.T) {
		in(t, nil, func(w *world) {
			for range 10 {
				w.sim.Fail(policysim.Status(400, ""))
				w.denies(bash, unavailable, "400")
			}
			w.passes(bash)
		})
	})
}
