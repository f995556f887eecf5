package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leaseguard.internal/gate/dialect"
	"leaseguard.internal/internal/policysim"
)

// More statements: the endpoint and its policies.

func TestO19_JSONIsSent(t *testing.T) {
	in(t, nil, func(w *world) {
		w.sim.Fail(policysim.Status(http.StatusUnsupportedMediaType, `{"error":{"message":"not JSON"}}`))
		w.denies(bash, unavailable, "415", "not JSON")
		if got := w.sim.Seen()[0].Header.Get("Content-Type"); got != "application/json" {
			t.Errorf("content type %q", got)
		}
	})
}

// O20 differs: what comes back raw is a denial, and says what is missing.
func TestO20_RawAskIsADenial(t *testing.T) {
	in(t, nil, func(w *world) {
		w.sim.ReadOnly = true
		w.sim.Policies = []policysim.Policy{policysim.Always("admin", policysim.Ask, "Approve Bash?")}
		w.denies(bash, no, "Approve Bash?", "edit the session")
		w.denies(prompt(`"x"`), no, "approval")
		if o := w.ask(result("Bash", "{}", "1")); o.Denied {
			t.Errorf("of a result: %+v", o)
		}
	})
}

func TestO21_QuestionsPassTheChecks(t *testing.T) {
	for _, c := range []Call{bash, toolCall("x", ""), prompt(""), prompt("7"), prompt(`{"a":1}`), result("x", "", "null"), result("x", `{"a":"b"}`, `[1]`)} {
		in(t, nil, func(w *world) {
			w.passes(c)
			w.sim.Fail(policysim.Status(400, `{"error":{"code":"invalid_input","message":"bad"}}`))
			if o := w.ask(c); o.Denied != (c.Event.Kind != dialect.Observer) {
				t.Errorf("a question that is refused: %+v", o)
			}
			w.asked2(2)
		})
	}
}

func TestO22_AllowOfNobodyCounts(t *testing.T) {
	in(t, nil, func(w *world) {
		w.passes(bash) // no policy at all
		w.sim.Fail(policysim.Status(200, `{"result":"`+policysim.Unspecified+`"}`))
		w.denies(bash, unavailable, policysim.Unspecified)
		w.sim.Sessions = []string{"another"}
		w.denies(bash, unavailable, "404", "no such session")
	})
}

// O23, O27, O30 and O33 are the server's own business: nothing but the question
// goes out, by one route, and nothing but the verdict is read.
func TestO23_O27_O30_O33_NothingButTheQuestion(t *testing.T) {
	in(t, nil, func(w *world) {
		w.sim.Fail(policysim.Status(200, `{"result":"POLICY_ACTION_DENY","reason":"r","labels":{"a":"b"},"state":[],"actor":"x"}`))
		w.denies(bash, no, "r")
		var body map[string]any
		if err := json.NewDecoder(strings.NewReader(w.sim.Seen()[0].Body)).Decode(&body); err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(body)); !slices.Equal(got, []string{"_omnigent_elicitation_id", "event"}) {
			t.Errorf("keys %v", got)
		}
		ev := body["event"].(map[string]any)
		if got := slices.Sorted(maps.Keys(ev)); !slices.Equal(got, []string{"context", "data", "target", "type"}) {
			t.Errorf("keys of the event %v", got)
		}
		if got := slices.Sorted(maps.Keys(ev["context"].(map[string]any))); !slices.Equal(got, []string{"harness"}) {
			t.Errorf("keys of the context %v", got)
		}
		w.asked2(1)
	})
}

func TestO24_AskIsHeldWithinTheBudget(t *testing.T) {
	in(t, nil, func(w *world) {
		w.sim.Policies = []policysim.Policy{policysim.Always("admin", policysim.Ask, "Approve?")}
		w.within(30*time.Second, func() { w.denies(bash, unavailable, "approval still open at") })
		w.asked(1)
	})
}

func TestO25_HowAParkEnds(t *testing.T) {
	for action, words := range map[string][]string{"accept": nil, "decline": {"admin: Approve? declined"}, "cancel": {"admin: Approve?"}, "timeout": {"admin: Approve?"}} {
		t.Run(action, func(t *testing.T) {
			in(t, nil, func(w *world) {
				w.sim.Policies = []policysim.Policy{policysim.Always("admin", policysim.Ask, "Approve?")}
				if action == "timeout" {
					w.sim.AskTimeout = 10 * time.Second
				}
				done := make(chan Opinion)
				go func() { done <- w.ask(bash) }()
				synctest.Wait()
				if action != "timeout" && !w.sim.Resolve(w.sim.Cards()[0], action) {
					t.Fatal("there is no card")
				}
				o := <-done
				if o.Denied != (words != nil) || o.Denied && (o.Code != no || !strings.Contains(o.Cause, words[0])) {
					t.Errorf("%+v", o)
				}
			})
		})
	}
}

func TestO26_TheSameCallComesBackToItsCard(t *testing.T) {
	in(t, nil, func(w *world) {
		w.sim.Policies = []policysim.Policy{policysim.Always("admin", policysim.Ask, "Approve?")}
		w.denies(bash, unavailable)
		w.denies(bash, unavailable)
		synctest.Wait()
		w.asked(2) // by one id
		if cards := w.sim.Cards(); len(cards) != 1 {
			t.Fatalf("cards %v", cards)
		}
		w.sim.Resolve(w.sim.Cards()[0], "accept") // while nobody waits
		w.within(0, func() { w.passes(bash) })
	})
}

func TestO28_FirstDenialAndAllAsks(t *testing.T) {
	in(t, nil, func(w *world) {
		w.sim.ReadOnly = true
		ask := func(n string) policysim.Policy { return policysim.Always(n, policysim.Ask, "why "+n) }
		w.sim.Policies = []policysim.Policy{policysim.Always("a", policysim.Allow, ""), ask("b"), ask("c")}
		w.denies(bash, no, "b: why b; c: why c")
		w.sim.Policies = append(w.sim.Policies, policysim.Always("d", policysim.Deny, "first"), policysim.Always("e", policysim.Deny, "second"))
		if o := w.denies(bash, no, "first"); strings.Contains(o.Cause, "second") || strings.Contains(o.Cause, "why b") {
			t.Errorf("%s", o.Cause)
		}
	})
}

func TestO29_FailingPolicyDenies(t *testing.T) {
	in(t, nil, func(w *world) {
		w.sim.Policies = []policysim.Policy{{Name: "N", Judge: nil}}
		w.denies(bash, no, "policy 'N' failed")
	})
}

// O31 differs: guard changes no call, so one that is allowed otherwise is denied.
func TestO31_ChangedDataDenies(t *testing.T) {
	call := toolCall("Bash", `{"command":"id","n":1.0}`)
	for data, passes := range map[string]bool{
		`null`: true, `{"arguments":{"n":1,"command":"id"},"name":"Bash"}`: true,
		`{"name":"Bash","arguments":{"command":"id --dry-run","n":1}}`: false, `{}`: false, `"x"`: false, `[]`: false,
	} {
		in(t, nil, func(w *world) {
			w.sim.Fail(policysim.Status(200, fmt.Sprintf(`{"result":"POLICY_ACTION_ALLOW","data":%s}`, data)))
			if passes {
				w.passes(call)
			} else {
				w.denies(call, no, "only with changes")
			}
		})
	}
}

// O32 differs: three of its six phases have an event of a host.
func TestO32_ThreePhases(t *testing.T) {
	got := map[any]bool{}
	for _, c := range []Call{bash, prompt(`"x"`), result("Bash", "{}", "1")} {
		ev, _ := sent(t, c)
		got[ev["type"]] = true
	}
	if len(got) != 3 || !got["PHASE_REQUEST"] || !got["PHASE_TOOL_CALL"] || !got["PHASE_TOOL_RESULT"] {
		t.Errorf("phases %v", got)
	}
}
