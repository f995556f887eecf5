package policy

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/policysim"
	"leaseguard.internal/internal/wire"
)

// The weaknesses of the system that this client follows, each with the better
// outcome.

func TestX1_UnansweredAskIsADenialInTime(t *testing.T) {
	for _, c := range []Call{bash, prompt(`"x"`)} {
		in(t, nil, func(w *world) {
			w.sim.Policies = []policysim.Policy{policysim.Always("p", policysim.Ask, "?")}
			w.within(30*time.Second, func() { w.denies(c, unavailable, "approval still open") })
		})
	}
}

// Bodies that end another client end nothing here but the call.
func TestX2_OddBodiesAreNoVerdict(t *testing.T) {
	for name, body := range map[string]string{
		"list": "[]", "null": "null", "text": `"x"`, "number": "7", "broken UTF-8": "{\"result\":\"POLICY_ACTION_ALLOW\",\"reason\":\"\xff\"}",
		"deep": strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000), "surrogate": `{"result":"POLICY_ACTION_ALLOW","reason":"\ud800"}`,
		"byte order mark": "\xef\xbb\xbf" + `{"result":"POLICY_ACTION_ALLOW"}`,
	} {
		t.Run(name, func(t *testing.T) {
			in(t, nil, func(w *world) {
				w.sim.Fail(policysim.Status(200, body))
				w.denies(bash, unavailable, "not understood")
				w.passes(bash)
			})
		})
	}
}

func TestX4_UnknownResultDenies(t *testing.T) {
	for _, word := range []string{"", "deny", "allow", "ALLOW", "policy_action_allow", "POLICY_ACTION_ALLOW ", "POLICY_ACTION_UNSPECIFIED", "POLICY_ACTION_MAYBE"} {
		in(t, nil, func(w *world) {
			w.sim.Fail(policysim.Status(200, `{"result":"`+word+`"}`))
			w.denies(bash, unavailable, "no verdict")
		})
	}
	for _, body := range []string{`{}`, `{"result":true}`, `{"result":["POLICY_ACTION_ALLOW"]}`, `{"RESULT":"POLICY_ACTION_ALLOW"}`} {
		in(t, nil, func(w *world) {
			w.sim.Fail(policysim.Status(200, body))
			w.denies(bash, unavailable)
		})
	}
}

// What was held and then cut comes back to the same card: within the budget by
// itself, and after it with the next call.
func TestX6_ACutParkComesBack(t *testing.T) {
	cut := func(after time.Duration) policysim.Fault {
		late := policysim.Late(after)
		return func(rw http.ResponseWriter, r *http.Request) bool { return late(rw, r) || policysim.Raw("")(rw, r) }
	}
	in(t, nil, func(w *world) {
		w.sim.Fail(cut(20 * time.Second))
		w.sim.Policies = []policysim.Policy{policysim.Always("p", policysim.Ask, "?")}
		done := make(chan Opinion)
		go func() { done <- w.ask(bash) }()
		time.Sleep(22 * time.Second)
		synctest.Wait()
		w.sim.Resolve(w.sim.Cards()[0], "accept")
		if o := <-done; o.Denied {
			t.Errorf("%+v", o)
		}
		w.asked(2)
	})
	in(t, nil, func(w *world) {
		w.sim.Fail(cut(29500*time.Millisecond), policysim.Fine())
		w.denies(bash, unavailable, "connection ended before its answer")
		w.passes(bash)
		w.asked(2)
	})
	in(t, nil, func(w *world) { // what stands before the server gave up waiting
		w.sim.Fail(func(rw http.ResponseWriter, r *http.Request) bool {
			return policysim.Late(10*time.Second)(rw, r) || policysim.Status(504, "")(rw, r)
		})
		w.passes(bash)
		w.asked(2)
	})
}

// A token is in no reason, whatever the server says of it.
func TestX7_TheTokenIsInNoReason(t *testing.T) {
	const secret = "bearer-f3a9c1d7e5"
	in(t, func(c *config.PolicyServer) { c.TokenFile = file(t, secret+"\n") }, func(w *world) {
		for _, fault := range []policysim.Fault{
			policysim.Status(403, `{"message":"no `+secret+`"}`), policysim.Status(200, `{"result":"POLICY_ACTION_DENY","reason":"`+secret+`"}`),
			policysim.Redirect("https://x/" + secret), policysim.Status(400, secret), policysim.Raw(secret + "\r\n"),
		} {
			w.sim.Fail(fault)
			if o := w.ask(bash); !o.Denied || strings.Contains(o.Cause+o.Next, secret) || strings.Contains(o.Result.Hash+o.Result.ID, secret) {
				t.Errorf("%+v", o)
			}
		}
		if err := os.Remove(w.cfg.TokenFile); err != nil {
			t.Fatal(err)
		}
		w.sim.Fail(policysim.Status(401, `{"message":"`+secret+`"}`))
		if o := w.denies(bash, unavailable, "no new token", "token_file"); strings.Contains(o.Cause, secret) {
			t.Errorf("%+v", o)
		}
	})
}

func TestX7_NoPartOfALongTokenIsInAReason(t *testing.T) {
	secret := strings.Repeat("bearer/f3a9c1d7e5", 40)
	in(t, func(c *config.PolicyServer) { c.TokenFile = file(t, secret+"\n") }, func(w *world) {
		for _, fault := range []policysim.Fault{
			policysim.Status(400, `{"message":"no `+secret+`"}`), policysim.Status(400, `{"message":"no `+strings.ReplaceAll(secret, "/", `\/`)+`"}`),
			policysim.With(200, `{"result":"`+secret+`"}`), policysim.Redirect("https://x/" + secret),
		} {
			w.sim.Fail(fault)
			if o := w.ask(bash); !o.Denied || strings.Contains(o.Cause+o.Next, "f3a9c1d7e5") {
				t.Errorf("%+v", o)
			}
		}
	})
}

func TestX8_AnswersAreBounded(t *testing.T) {
	in(t, nil, func(w *world) {
		for _, fault := range []policysim.Fault{policysim.Flood(), policysim.With(200, strings.Repeat(" ", maxAnswer)+`{"result":"POLICY_ACTION_ALLOW"}`), policysim.With(200, "", "X", strings.Repeat("x", 1<<20))} {
			w.sim.Fail(fault)
			w.within(time.Second, func() { w.denies(bash, unavailable) })
		}
	})
}

func TestX9_IDsAreRandomAndOfOneSession(t *testing.T) {
	in(t, nil, func(w *world) {
		ids := map[string]bool{}
		for i, c := range []Call{bash, {Session: "s2", Generation: 1, Event: bash.Event}, {Session: "s1", Generation: 2, Event: bash.Event}} {
			w.sim.Fail(policysim.Hang())
			w.denies(c, unavailable, "approval still open")
			if ids[w.sim.Seen()[i].ID] {
				t.Error("another session, or another launch of it, asks by the id of an open approval")
			}
			ids[w.sim.Seen()[i].ID] = true
		}
	})
}

func TestX12_EveryPromptIsJudged(t *testing.T) {
	in(t, nil, func(w *world) {
		w.sim.Policies = []policysim.Policy{policysim.Always("p", policysim.Ask, "?", phaseRequest)}
		done := make(chan Opinion)
		go func() { done <- w.ask(prompt(`"one"`)) }()
		synctest.Wait()
		w.sim.Fail(policysim.Status(200, `{"result":"POLICY_ACTION_DENY","reason":"two is bad"}`))
		w.denies(prompt(`"two"`), no, "two is bad")
		w.sim.Resolve(w.sim.Cards()[0], "accept")
		if o := <-done; o.Denied {
			t.Errorf("%+v", o)
		}
		w.asked2(2)
	})
}

// Two calls of one session at once are two evaluations: none gets the other's
// answer, and none is left out.
func TestX13_CallsAtOnceAreTwo(t *testing.T) {
	in(t, nil, func(w *world) {
		w.sim.Policies = []policysim.Policy{policysim.Always("p", policysim.Ask, "?")}
		done := make(chan Opinion)
		for range 2 {
			go func() { done <- w.ask(bash) }()
		}
		synctest.Wait()
		cards := w.sim.Cards()
		if len(cards) != 2 {
			t.Fatalf("cards %v", cards)
		}
		w.sim.Resolve(cards[0], "accept")
		w.sim.Resolve(cards[1], "decline")
		if a, b := <-done, <-done; a.Denied == b.Denied {
			t.Errorf("%+v %+v", a, b)
		}
	})
}

func TestX14_AllHostsFailClosed(t *testing.T) {
	for _, host := range []wire.Host{wire.HostClaude, wire.HostCodex, wire.HostPi} {
		for _, c := range []Call{bash, prompt(`"x"`)} {
			for _, fault := range []policysim.Fault{policysim.Status(404, ""), policysim.Status(200, "{}"), policysim.Hang()} {
				in(t, nil, func(w *world) {
					c.Host = host
					w.sim.Fail(fault)
					w.denies(c, unavailable)
				})
			}
		}
	}
}
