package policy

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/policysim"
	"leaseguard.internal/internal/verdict"
)

const (
	no          = verdict.PolicyDenied
	unavailable = verdict.PolicyUnavailable
)

// However the server fails, no call passes, none waits beyond the budget, and the
// reason tells which failure it was.
func TestServerFails(t *testing.T) {
	html := policysim.Page(http.StatusOK)
	tests := []struct {
		name  string
		fault policysim.Fault
		asked int // times
		words []string
	}{
		{"killed", policysim.Raw(""), 6, []string{"budget is used up", "connection ended before its answer"}},
		{"hung", policysim.Hang(), 1, []string{"approval still open at", "or it hangs", "did not answer in time"}},
		{"late", policysim.Late(31 * time.Second), 1, []string{"did not answer in time"}},
		{"began to answer", policysim.Drip(), 1, []string{"began and did not end in time"}},
		{"endless", policysim.Flood(), 1, []string{"longer than"}},
		{"no HTTP", policysim.Raw("SSH-2.0-x\r\n"), 1, []string{"not understood"}},
		{"login page", html, 1, []string{"another login", "page for people", "policy_server.token_file"}},
		{"login redirect", policysim.Redirect("https://sso.example/login?next=secret"), 1, []string{"302", "sso.example/login", "another login"}},
		{"redirect elsewhere", policysim.Redirect("https://other.example/v2"), 1, []string{"302", "isn't followed"}},
		{"empty", policysim.Status(200, ""), 1, []string{"empty"}},
		{"204", policysim.With(204, ""), 1, []string{"empty"}},
		{"garbage", policysim.Status(200, "OK"), 1, []string{"not understood"}},
		{"a list", policysim.Status(200, `["POLICY_ACTION_ALLOW"]`), 1, []string{"not an object"}},
		{"null", policysim.Status(200, `null`), 1, []string{"not an object"}},
		{"two objects", policysim.Status(200, `{"result":"POLICY_ACTION_ALLOW"}{}`), 1, []string{"after the end"}},
		{"two results", policysim.Status(200, `{"result":"POLICY_ACTION_DENY","result":"POLICY_ACTION_ALLOW"}`), 1, []string{"twice"}},
		{"result in another case", policysim.Status(200, `{"Result":"POLICY_ACTION_ALLOW"}`), 1, []string{"case folding"}},
		{"no result", policysim.Status(200, `{}`), 1, []string{"has no result"}},
		{"result null", policysim.Status(200, `{"result":null}`), 1, []string{"has no result"}},
		{"lower case", policysim.Status(200, `{"result":"policy_action_allow"}`), 1, []string{"no verdict"}},
		{"unspecified", policysim.Status(200, `{"result":"POLICY_ACTION_UNSPECIFIED"}`), 1, []string{"no verdict"}},
		{"a reason that is no text", policysim.Status(200, `{"result":"POLICY_ACTION_ALLOW","reason":7}`), 1, []string{"no text"}},
		{"500", policysim.Status(500, "oops"), 6, []string{"budget is used up", "500"}},
		{"503", policysim.Status(503, ""), 6, []string{"budget is used up", "503 Service Unavailable"}},
		{"400", policysim.Status(400, `{"error":{"code":"invalid_input","message":"bad"}}`), 1, []string{"400", "bad"}},
		{"404", policysim.Status(404, `{"error":{"message":"no such session"}}`), 1, []string{"404", "no such session"}},
		{"401", policysim.Status(401, ""), 1, []string{"401", "another login"}},
		{"403", policysim.Status(403, `{"decision":"deny"}`), 1, []string{"403"}},
		{"429 for long", policysim.With(429, "", "Retry-After", "600"), 1, []string{"429"}},
		{"429", policysim.With(429, ""), 6, []string{"429", "budget is used up"}},
	}
	for _, tt := range tests {
		for phase, call := range map[string]Call{"call": bash, "prompt": prompt(`"hi"`), "result": result("Bash", "{}", `"x"`)} {
			t.Run(tt.name+" "+phase, func(t *testing.T) {
				in(t, nil, func(w *world) {
					for range 10 {
						w.sim.Fail(tt.fault)
					}
					w.within(30*time.Second, func() {
						if phase == "result" {
							if o := w.ask(call); o.Denied || o.Result.Status != "failed" {
								t.Errorf("%+v, want a failure that stops nothing", o)
							}
							return
						}
						if o := w.denies(call, unavailable, tt.words...); strings.Contains(o.Cause, "secret") || o.Result.Decision != "deny" || o.Result.Status != "failed" {
							t.Errorf("%+v, %+v", o, o.Result)
						}
					})
					w.asked(tt.asked)
				})
			})
		}
	}
}

// A server that can't be reached, or isn't who it should be.
func TestServerUnreachable(t *testing.T) {
	in(t, nil, func(w *world) {
		for range 10 {
			w.down = append(w.down, 0)
		}
		w.within(30*time.Second, func() { w.denies(bash, unavailable, "no connection", "connection refused", "budget is used up") })
	})
}

// Nothing of a verdict but a clear one passes, and what the server says in its
// reason is told, cut to fit.
func TestServerAnswers(t *testing.T) {
	long := strings.Repeat("a", 3000)
	in(t, nil, func(w *world) {
		w.passes(bash)
		w.sim.Policies = []policysim.Policy{policysim.Always("p", policysim.Deny, "not \x1b[31mtoday "+long)}
		if o := w.denies(bash, no, "not  [31mtoday", "127.0.0.1"); len(o.Cause) > 700 || strings.Contains(o.Cause, "\x1b") {
			t.Errorf("%q", o.Cause)
		}
		r := w.ask(bash).Result
		if r.Kind != "server" || r.Status != "denied" || r.Decision != "deny" || r.Exit != 200 || !strings.HasPrefix(r.Hash, idPrefix) || r.Matcher != phaseCall {
			t.Errorf("record %+v", r)
		}
	})
}

// One lapse costs one new token, whatever it is called.
func TestQ1_Lapses(t *testing.T) {
	lapses := map[string]policysim.Fault{
		"403 in words":         policysim.Status(403, `{"message":"Invalid Token"}`),
		"401":                  policysim.Status(401, ""),
		"302 to a login":       policysim.Redirect("/login"),
		"302 to oidc":          policysim.Redirect("https://x/oidc/start"),
		"302 to .auth":         policysim.Redirect("https://x/.auth/login/aad"),
		"200 with a page":      policysim.Page(200),
		"403 in a header":      policysim.With(403, "", "WWW-Authenticate", `Bearer error="invalid_token"`),
		"403 expired":          policysim.Status(403, `{"error":{"code":"x","message":"Token expired"}}`),
		"401 with a rejection": policysim.Status(401, `{"error":{"code":"unauthorized","message":"who?"}}`),
	}
	for name, lapse := range lapses {
		t.Run(name, func(t *testing.T) {
			path := file(t, "stale\n")
			in(t, func(c *config.PolicyServer) { c.TokenFile, c.Headers = path, map[string]string{"X-Org": "7"} }, func(w *world) {
				if err := os.WriteFile(path, []byte("fresh\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				w.sim.Fail(lapse)
				w.sim.Token = "fresh"
				w.within(0, func() { w.passes(bash) })
				w.asked(2)
				seen := w.sim.Seen()
				for i, want := range []string{"Bearer stale", "Bearer fresh"} {
					if h := seen[i].Header; h.Get("Authorization") != want || h.Get("X-Org") != "7" || h.Get("Content-Type") != "application/json" {
						t.Errorf("attempt %d has headers %v", i, h)
					}
				}
				w.sim.Fail(lapse, lapse)
				w.denies(bash, unavailable, "another login")
			})
		})
	}
	t.Run("a denial that is none", func(t *testing.T) {
		path := file(t, "token-1\n")
		in(t, func(c *config.PolicyServer) { c.TokenFile = path }, func(w *world) {
			w.sim.Fail(policysim.Status(403, `{"decision":"deny","reason":"not you"}`))
			w.denies(bash, unavailable, "403", "not you")
			w.asked(1)
		})
	})
}

// Only what can't have made a verdict, or comes back to the same one, is asked
// again, by one id, inside one budget.
func TestQ2_Retries(t *testing.T) {
	in(t, nil, func(w *world) {
		w.sim.Fail(policysim.Status(503, ""), policysim.Status(503, ""))
		w.passes(bash)
		w.asked(3)
		w.at(0, 1, 3)
	})
	in(t, nil, func(w *world) {
		for range 20 {
			w.down = append(w.down, 0)
		}
		w.within(30*time.Second, func() { w.denies(bash, unavailable, "connection refused") })
	})
	in(t, nil, func(w *world) {
		w.sim.Fail(policysim.Hang())
		w.denies(bash, unavailable, "approval still open")
		w.asked(1)
	})
	in(t, nil, func(w *world) {
		w.sim.Fail(policysim.Late(40 * time.Second))
		w.within(30*time.Second, func() { w.denies(bash, unavailable, "did not answer in time") })
		w.asked(1)
	})
}

// A wait that the server asks for is kept, up to a bound.
func TestRetryAfter(t *testing.T) {
	for after, seconds := range map[string][]int{"": {0, 1}, "3": {0, 3}, "0": {0, 1}, "11": {0}, "soon": {0}, "date": {0, 5}} {
		in(t, nil, func(w *world) {
			if after == "date" {
				after = time.Now().Add(5 * time.Second).UTC().Format(http.TimeFormat)
			}
			w.sim.Fail(policysim.With(429, "", "Retry-After", after))
			if len(seconds) == 1 {
				w.denies(bash, unavailable, "429")
			} else {
				w.passes(bash)
			}
			w.at(seconds...)
		})
	}
}

// Who is gone needs no verdict.
func TestAskerIsGone(t *testing.T) {
	in(t, nil, func(w *world) {
		ctx, cancel := context.WithCancel(context.Background())
		w.sim.Fail(policysim.Hang())
		done := make(chan Opinion)
		go func() { done <- w.Judge(ctx, bash) }()
		synctest.Wait()
		cancel()
		if o := <-done; !o.Denied || o.Result.Status != "aborted" {
			t.Errorf("%+v %+v", o, o.Result)
		}
		w.passes(bash)
		w.asked(2) // by the same id
	})
}

// The caller's own time counts, too.
func TestShorterTime(t *testing.T) {
	in(t, nil, func(w *world) {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		w.sim.Fail(policysim.Hang())
		w.within(3*time.Second, func() {
			if o := w.Judge(ctx, bash); !o.Denied {
				t.Errorf("%+v", o)
			}
		})
	})
}

func TestProbe(t *testing.T) {
	for name, tt := range map[string]struct {
		fault policysim.Fault
		want  string
	}{
		"fine":            {policysim.Fine(), ""},
		"no such session": {policysim.Status(404, ""), ""},
		"unauthorized":    {policysim.Status(401, ""), "another login"},
		"says yes to all": {policysim.Status(200, `{"result":"POLICY_ACTION_ALLOW"}`), "none"},
		"hung":            {policysim.Hang(), "in time"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, nil, func(w *world) {
				w.sim.Fail(tt.fault)
				w.within(probeTime, func() {
					if err := w.Probe(context.Background()); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
						t.Errorf("%v, want %q", err, tt.want)
					}
				})
			})
		})
	}
}
