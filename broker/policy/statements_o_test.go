package policy

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"leaseguard.internal/gate/dialect"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/policysim"
	"leaseguard.internal/internal/wire"
)

// The statements about the system that this client follows, each with what holds
// here. docs/policy.md lists them.

// sent is the event that a call is asked by.
func sent(t *testing.T, c Call) (got map[string]any, text string) {
	t.Helper()
	in(t, nil, func(w *world) {
		w.passes(c)
		seen := w.sim.Seen()
		if len(seen) != 1 {
			t.Fatalf("asked %d times", len(seen))
		}
		got, text = event(t, seen[0]), string(seen[0].Event)
	})
	return got, text
}

func TestO1_PromptIsARequest(t *testing.T) {
	for raw, want := range map[string]string{`"delete \u0000 prod"`: `"delete \u0000 prod"`, `["a",{"b":1}]`: `"[\"a\",{\"b\":1}]"`, `null`: `"null"`, ``: `""`} {
		_, text := sent(t, prompt(raw))
		if want := `{"type":"PHASE_REQUEST","target":"","data":{"text":` + want + `},"context":{"harness":"claude-native"}}`; text != want {
			t.Errorf("%s is sent as %s", raw, text)
		}
	}
}

func TestO2_CallIsAToolCall(t *testing.T) {
	_, text := sent(t, toolCall("Bash", `{"command":"rm -rf /","a":[1e300]}`))
	if want := `{"type":"PHASE_TOOL_CALL","target":"","data":{"name":"Bash","arguments":{"command":"rm -rf /","a":[1e300]}},"context":{"harness":"claude-native"}}`; text != want {
		t.Errorf("sent %s", text)
	}
}

// O3 differs: the result is what hosts really send.
func TestO3_ResultIsTheToolsResponse(t *testing.T) {
	_, text := sent(t, result("Bash", `{"command":"cat /etc/passwd"}`, `{"stdout":"root:x:0:0"}`))
	want := `{"type":"PHASE_TOOL_RESULT","target":"","data":{"result":{"stdout":"root:x:0:0"}},"context":{"harness":"claude-native"},` +
		`"request_data":{"name":"Bash","arguments":{"command":"cat /etc/passwd"}}}`
	if text != want {
		t.Errorf("sent %s", text)
	}
	in(t, nil, func(w *world) {
		w.sim.Policies = []policysim.Policy{policysim.Always("p", policysim.Deny, "Output contains sensitive data.")}
		if o := w.ask(result("Bash", "{}", `"x"`)); !o.Denied || !strings.Contains(o.Cause, "Output contains sensitive data.") {
			t.Errorf("%+v", o)
		}
		w.sim.Policies = []policysim.Policy{policysim.Always("p", policysim.Deny, "")}
		if o := w.ask(result("Bash", "{}", `"x"`)); o.Denied {
			t.Errorf("a denial without words: %+v", o)
		}
	})
}

// O4 and X10 differ: no name is exempt.
func TestO4_X10_NoNameIsExempt(t *testing.T) {
	for _, tool := range []string{"mcp__omnigent__list_comments", "mcp_omnigent_x", "mcp__guard__recover", "mcp__github__create_issue"} {
		in(t, nil, func(w *world) {
			w.sim.Policies = []policysim.Policy{policysim.Always("p", policysim.Deny, "no")}
			w.denies(toolCall(tool, "{}"), no)
			if o := w.ask(result(tool, "{}", "1")); !o.Denied {
				t.Errorf("the result of %s isn't judged", tool)
			}
			w.asked2(2)
		})
	}
}

// asked2 is how often the server was asked, by whatever ids.
func (w *world) asked2(want int) {
	w.t.Helper()
	if n := len(w.sim.Seen()); n != want {
		w.t.Errorf("asked %d times, want %d", n, want)
	}
}

func TestO5_OtherEventsAskNobody(t *testing.T) {
	in(t, nil, func(w *world) {
		for _, ev := range []dialect.Event{
			{}, {Kind: dialect.Observer, Name: "SessionStart"}, {Kind: dialect.ConfigChange, Name: "ConfigChange"},
			{Kind: dialect.Observer, Name: "PostToolUseFailure", Tool: "Bash", Result: []byte("1")}, {Kind: dialect.Observer, Name: "PostToolUse", Tool: "Bash"},
		} {
			if o := w.ask(Call{Session: "s1", Event: ev}); o.Denied || o.Result != nil {
				t.Errorf("%s has the opinion %+v", ev.Name, o)
			}
		}
		w.asked2(0)
	})
}

func TestO6_ContextNamesHostAndModel(t *testing.T) {
	for host, want := range map[wire.Host]string{wire.HostClaude: "claude-native", wire.HostCodex: "codex-native", wire.HostPi: "pi-native"} {
		c := bash
		c.Host, c.Event.Model = host, `m"1`
		got, _ := sent(t, c)
		if about := got["context"].(map[string]any); len(about) != 2 || about["harness"] != want || about["model"] != `m"1` {
			t.Errorf("%v", about)
		}
	}
}

func TestO7_OneIDOnEveryAttempt(t *testing.T) {
	in(t, nil, func(w *world) {
		w.sim.Fail(policysim.Status(503, ""), policysim.Raw(""), policysim.Status(500, ""))
		w.passes(bash)
		w.asked(4)
		w.passes(bash)
		seen := w.sim.Seen()
		if seen[4].ID == seen[3].ID {
			t.Error("the next evaluation has the id of one that was answered")
		}
		if id := seen[0].ID; len(id) != len(idPrefix)+32 || strings.Trim(id[len(idPrefix):], "0123456789abcdef") != "" {
			t.Errorf("id %q", id)
		}
	})
}

func TestO8_CallsAndPromptsFailClosed(t *testing.T) {
	in(t, nil, func(w *world) {
		for _, c := range []Call{bash, prompt(`"x"`)} {
			w.sim.Fail(policysim.Status(400, ""))
			w.denies(c, unavailable, "gave no verdict", "400")
		}
		w.sim.Fail(policysim.Status(400, ""))
		if o := w.ask(result("Bash", "{}", "1")); o.Denied {
			t.Errorf("a result that can't be judged: %+v", o)
		}
	})
}

func TestO11_WithoutAVerdictClosed(t *testing.T) {
	for name, fault := range map[string]policysim.Fault{
		"empty": policysim.Status(200, ""), "204": policysim.With(204, ""), "no JSON": policysim.Status(200, "yes"), "not 2xx": policysim.Status(418, ""), "nobody": nil,
	} {
		t.Run(name, func(t *testing.T) {
			in(t, nil, func(w *world) {
				if fault == nil {
					w.down = make([]time.Duration, 10)
				} else {
					w.sim.Fail(fault)
				}
				w.denies(bash, unavailable)
			})
		})
	}
}

// O12 has no counterpart: there is one way to the server, for every host.
func TestO12_OneWayForAllHosts(t *testing.T) {
	for _, host := range []wire.Host{wire.HostClaude, wire.HostCodex, wire.HostPi} {
		in(t, nil, func(w *world) {
			c := bash
			c.Host = host
			w.sim.Fail(policysim.Status(503, ""))
			w.passes(c)
			w.asked(2)
			w.sim.Fail(policysim.Status(200, `{"reason":"x"}`))
			w.denies(c, unavailable, "no result")
		})
	}
}

func TestO14_AddressAndHeaders(t *testing.T) {
	in(t, func(c *config.PolicyServer) {
		c.URL = strings.Replace(c.URL, "evaluate", "evaluate?v=1", 1)
		c.Headers = map[string]string{"X-Workspace": "a b"}
	}, func(w *world) {
		if got := w.address("a/b c?%"); got != "http://127.0.0.1:1/v1/sessions/a%2Fb%20c%3F%25/policies/evaluate?v=1" {
			t.Errorf("address %s", got)
		}
		w.passes(bash)
		h := w.sim.Seen()[0].Header
		want := []string{"Accept", "Content-Length", "Content-Type", "User-Agent", "X-Workspace"}
		if got := slices.Sorted(maps.Keys(h)); !slices.Equal(got, want) || h.Get("X-Workspace") != "a b" {
			t.Errorf("headers %v", h)
		}
	})
}
