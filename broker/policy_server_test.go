package broker

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/broker/policy"
	"leaseguard.internal/gate/dialect"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/policysim"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// servedFixture is a broker with a policy server that has these policies.
func servedFixture(t *testing.T, policies ...policysim.Policy) (*fixture, *policysim.Server) {
	t.Helper()
	sim := &policysim.Server{Policies: policies}
	if err := sim.Start(); err != nil {
		t.Fatal(err)
	}
	cfg := config.PolicyServer{URL: sim.URL(), ConnectTimeout: time.Second, Budget: 30 * time.Second}
	e, err := policy.NewEvaluator(cfg, uint32(os.Getuid()), clock.System{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := bareFixture(t)
	f.options = func(o *Options) { o.Policies, o.Close = e, e.Close }
	f.start(func(c *config.Config) { c.Lease.Promotion = "self" })
	t.Cleanup(sim.Close)
	return f, sim
}

// has is a policy that denies what holds a text.
func has(text, reason string, phases ...string) policysim.Policy {
	return policysim.Policy{Name: "has", Judge: func(phase string, event jsontext.Value) policysim.Verdict {
		if strings.Contains(string(event), text) && (len(phases) == 0 || strings.Contains(strings.Join(phases, " "), phase)) {
			return policysim.Verdict{Result: policysim.Deny, Reason: reason}
		}
		return policysim.Verdict{}
	}}
}

func (f *fixture) prompt(text string) wire.Reply {
	return f.send(wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleDecide,
		Body: []byte(`{"hook_event_name":"UserPromptSubmit","session_id":"s","prompt":` + text + `}`)})
}

// gave tells of a tool that has run, and returns what the model is told.
func (f *fixture) gave(tool, response string) string {
	r := f.send(wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleObserve,
		Body: fmt.Appendf(nil, `{"hook_event_name":"PostToolUse","session_id":"s","tool_name":%q,"tool_input":{},"tool_use_id":"1","tool_response":%s}`, tool, response)})
	if r.Exit != 0 || len(r.Err) > 0 {
		f.t.Errorf("an observer got %+v", r)
	}
	return string(r.Out)
}

// The server has its place behind the lease and the hooks and before the
// checkpoint; reads, every tool's name and prompts are judged, and what is denied
// anyway asks nobody.
func TestPlaceOfPolicyServer(t *testing.T) {
	f, sim := servedFixture(t, has("forbidden", "not that"))
	s := f.session()
	f.expect(f.pre("Bash", `{"command":"id"}`), "lease_unverified")
	f.expect(f.pre("Read", `{"file_path":"`+f.opt.Paths.Config+`"}`), "guard_file")
	if n := len(sim.Seen()); n != 0 {
		t.Fatalf("asked %d times about calls that are denied anyway", n)
	}
	f.expect(f.pre("Read", `{"file_path":"/forbidden"}`), "policy_denied")
	f.expect(f.pre("Read", `{"file_path":"/x"}`), "")
	f.expect(f.prompt(`"something forbidden"`), "policy_denied")
	f.expect(f.prompt(`"hi"`), "")
	if r := f.approve(s.ID); r.Error != nil {
		t.Fatal(r.Error)
	}
	r := f.pre("Bash", `{"command":"forbidden"}`)
	f.expect(r, "policy_denied")
	if !bytes.Contains(r.Err, []byte("not that")) {
		t.Errorf("the reason is %s", r.Err)
	}
	if n := f.zvm.asked(); n != 0 {
		t.Errorf("%d checkpoints for denied calls", n)
	}
	f.expect(f.pre("Bash", `{"command":"id"}`), "")
	if n := f.zvm.asked(); n != 1 {
		t.Errorf("%d checkpoints for a passed call", n)
	}
	for _, e := range sim.Seen() {
		if e.Session != s.ID {
			t.Errorf("the server was asked about session %q", e.Session)
		}
	}
	f.must(f.audit.Flush(context.Background()))
	passed := false
	f.must(audit.Read(f.opt.Paths.AuditDir, func(r audit.Record, _ []byte) error {
		if r.Code == string(verdict.CheckpointConfirmed) && len(r.Policies) == 1 {
			p := r.Policies[0]
			passed = p.Kind == audit.PolicyServer && p.Status == "allowed" && p.Exit == 200 && strings.HasPrefix(p.Hash, "elicit_evaluate_")
		}
		return nil
	}))
	if !passed {
		t.Error("the record of the passed call has no evaluation")
	}
}

// A server that says yes is neutral to the host, and no failure of it passes.
func TestT6_PolicyServerGrantsNothing(t *testing.T) {
	f, sim := servedFixture(t)
	f.session()
	if r := f.pre("Read", `{}`); string(r.Out) != "{}" {
		t.Errorf("a read is answered %s", r.Out)
	}
	f.expect(f.pre("Write", `{}`), "lease_unverified")
	for _, fault := range []policysim.Fault{policysim.Page(200), policysim.Redirect("/login"), policysim.Status(200, "yes"), policysim.Status(403, "")} {
		sim.Fail(fault)
		f.expect(f.pre("Read", `{}`), "policy_unavailable")
		sim.Fail(fault)
		f.expect(f.prompt(`"x"`), "policy_unavailable")
	}
}

// A lease that ends while the server thinks is gone.
func TestLeaseEndsAtPolicyServer(t *testing.T) {
	var f *fixture
	var id string
	f, _ = servedFixture(t, policysim.Policy{Name: "slow", Judge: func(string, jsontext.Value) policysim.Verdict {
		if id != "" {
			f.verb(context.Background(), wire.Control{Verb: wire.VerbRevoke, Session: id}, nil)
		}
		return policysim.Verdict{}
	}})
	id = f.verified().ID
	f.expect(f.pre("Bash", `{}`), "lease_revoked")
}

// The result of a tool is judged by what the host says that it gave. What the
// server has against it is told to the model, and denies nothing.
func TestResultsAreJudged(t *testing.T) {
	f, sim := servedFixture(t, has("root:x:0:0", "Output contains sensitive data.", "PHASE_TOOL_RESULT"))
	f.verified()
	f.expect(f.pre("Bash", `{}`), "")
	if out := f.gave("Bash", `{"stdout":"root:x:0:0"}`); !strings.Contains(out, `"hookEventName":"PostToolUse","additionalContext":"[Policy violation] `) || !strings.Contains(out, "Output contains sensitive data.") {
		t.Errorf("the model is told %s", out)
	}
	if out := f.gave("Bash", `"fine"`); out != "" {
		t.Errorf("the model is told %s", out)
	}
	seen := sim.Seen()
	if got := string(seen[len(seen)-2].Event); !strings.Contains(got, `"data":{"result":{"stdout":"root:x:0:0"}}`) || !strings.Contains(got, `"request_data":{"name":"Bash","arguments":{}}`) {
		t.Errorf("the server was told %s", got)
	}
	sim.Fail(policysim.Status(400, ""), policysim.Status(200, "no"))
	if a, b := f.gave("Bash", `1`), f.gave("Bash", `2`); a+b != "" {
		t.Errorf("a failure at a result tells the model %s%s", a, b)
	}
}

// What comes too late for the event is told with the next call that passes, once.
func TestLateResultIsTold(t *testing.T) {
	f, sim := servedFixture(t, has("root:x:0:0", "sensitive", "PHASE_TOOL_RESULT"))
	f.verified()
	f.expect(f.pre("Bash", `{}`), "")
	sim.Fail(policysim.Late(resultTime + 500*time.Millisecond))
	if out := f.gave("Bash", `"root:x:0:0"`); out != "" {
		t.Errorf("told in time: %s", out)
	}
	f.eventually("the verdict is there", func() bool {
		p := f.results
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.used == 0
	})
	r := f.hook("PreToolUse", wire.RoleDecide, "2", "Read", `{}`)
	if out := string(f.send(r).Out); !strings.Contains(out, "[Policy violation]") || !strings.Contains(out, "sensitive") {
		t.Errorf("the next call says %s", out)
	}
	if out := string(f.send(r).Out); out != "{}" {
		t.Errorf("it is told twice: %s", out)
	}
	f.must(f.audit.Flush(context.Background()))
	found := false
	f.must(audit.Read(f.opt.Paths.AuditDir, func(r audit.Record, _ []byte) error {
		found = found || r.Code == codeResult && len(r.Policies) == 1 && r.Policies[0].Status == "denied"
		return nil
	}))
	if !found {
		t.Error("the late verdict is in no record")
	}
}

// What the recovery tool gives may be a token.
func TestRecoveryIsNotJudged(t *testing.T) {
	f, sim := servedFixture(t)
	v, werr := f.register(wire.Register{Runtime: "claude", Dir: "/", Command: "test"})
	if werr != nil {
		t.Fatal(werr)
	}
	s := f.sessions.ByID(v.ID)
	tool := recoveryTool(s)
	f.expect(f.pre(tool, `{}`), "")
	ran := dialect.Event{Kind: dialect.Observer, Name: "PostToolUse", Tool: tool, Input: []byte(`{}`), Result: []byte(`"token"`)}
	if got := f.seen(context.Background(), &call{set: f.settings(), host: wire.HostClaude, role: wire.RoleObserve, session: s, own: true, event: ran}); got.Context != "" || tool == "" {
		t.Errorf("%+v of the tool %q", got, tool)
	}
	if n := len(sim.Seen()); n != 0 {
		t.Errorf("the server was asked %d times about the recovery tool", n)
	}
}

// The model of the conversation is what the host said last; not that of a subagent.
func TestModelIsTold(t *testing.T) {
	f, sim := servedFixture(t)
	f.session()
	for _, more := range []string{`"source":"startup","model":"m-1"`, `"source":"startup","model":"m-2","agent_id":"a"`} {
		f.send(wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleObserve, Body: []byte(`{"hook_event_name":"SessionStart","session_id":"s",` + more + `}`)})
	}
	f.pre("Read", `{}`)
	if got := string(sim.Seen()[0].Event); !strings.Contains(got, `"context":{"harness":"claude-native","model":"m-1"}`) {
		t.Errorf("the server was told %s", got)
	}
}

// Who hangs up has no call any more: the evaluation ends with it.
func TestHangupEndsEvaluation(t *testing.T) {
	f, sim := servedFixture(t)
	f.session()
	sim.Fail(policysim.Hang())
	conn := f.dial()
	_, err := conn.Write(wire.AppendRequest(nil, f.hook("PreToolUse", wire.RoleDecide, "1", "Read", `{}`)))
	f.must(err)
	f.eventually("the server is asked", func() bool { return len(sim.Seen()) == 1 })
	f.must(conn.Close())
	f.eventually("the call is over", func() bool {
		last := f.lastPolicies()
		return len(last) == 1 && last[0].Status == "aborted"
	})
}

// P2: a NUL in a call reaches the server as what it is.
func TestP2_NULReachesPolicyServer(t *testing.T) {
	f, sim := servedFixture(t, has(`\u0000rm`, "no rm"))
	f.verified()
	f.expect(f.pre("Bash", `{"command":"echo a\u0000rm b"}`), "policy_denied")
	seen := sim.Seen()
	if got := string(seen[len(seen)-1].Event); !strings.Contains(got, `{"command":"echo a\u0000rm b"}`) {
		t.Errorf("the server was told %s", got)
	}
}

// What guard doctor asks.
func TestProbeServer(t *testing.T) {
	f, sim := servedFixture(t)
	p := f.probeServer(context.Background())
	if p == nil || p.Fault != "" || p.Host == "" {
		t.Errorf("%+v", p)
	}
	sim.Fail(policysim.Status(401, ""))
	if p = f.probeServer(context.Background()); p.Fault == "" {
		t.Errorf("%+v", p)
	}
	if p = newFixture(t, nil).probeServer(context.Background()); p != nil {
		t.Errorf("without a server: %+v", p)
	}
}
