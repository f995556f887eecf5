package broker

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/broker/policy"
	"leaseguard.internal/gate/dialect"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/wire"
)

// stubPolicies stands at the consumer's interfaces.
type stubPolicies struct {
	mu      sync.Mutex
	met     []policy.Met
	fault   error
	asked   []policy.Call
	opinion policy.Opinion
	judged  int
}

func (s *stubPolicies) Meet(c policy.Call) ([]policy.Met, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, c)
	return s.met, s.fault
}

func (s *stubPolicies) Judge(context.Context, policy.Call) policy.Opinion {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.judged++
	return s.opinion
}

func (s *stubPolicies) set(met ...policy.Met) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.met = met
}

func (s *stubPolicies) think(o policy.Opinion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opinion = o
}

func (s *stubPolicies) judgements() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.judged
}

func (s *stubPolicies) times() int { return len(s.calls()) }

func (s *stubPolicies) calls() []policy.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// met is a trusted definition of the user's.
func met(id string) policy.Met {
	return policy.Met{Source: "user", Matcher: "*", Hash: "sha256:" + id, Trusted: true, Run: wire.Hook{ID: id, Command: "/hook", TimeoutMS: 3000}}
}

// hookedFixture is a broker with policy hooks, whose runner the test plays.
func hookedFixture(t *testing.T, change func(*config.Config)) (*fixture, *stubPolicies) {
	t.Helper()
	f, s := bareFixture(t), &stubPolicies{}
	guard := filepath.Join(f.dir, "guard")
	f.must(os.WriteFile(guard, nil, 0o755))
	f.prepare = func(b *Broker) { b.hooks, b.guard = s, guard }
	f.start(change)
	return f, s
}

// play is what a runner does with its job.
type play func(job wire.HookJob, line string) []wire.HookResult

// results answers each hook in turn.
func results(all ...wire.HookResult) play {
	return func(wire.HookJob, string) []wire.HookResult { return all }
}

var allowed = wire.HookResult{Status: wire.HookAllowed}

func denied(reason string) wire.HookResult {
	return wire.HookResult{Status: wire.HookDenied, Reason: reason, Exit: 2}
}

// judged asks about a call, and plays the runner if hooks are to be run.
func (f *fixture) judged(req wire.Request, runner play) wire.Reply {
	f.t.Helper()
	return f.exchange(req, func(conn net.Conn) {
		_, err := conn.Write(wire.AppendRequest(nil, wire.Request{Kind: wire.KindHooksReady}))
		f.must(err)
		text, line, err := wire.ReadHookJob(conn)
		f.must(err)
		var job wire.HookJob
		f.must(strictjson.Decode(text, &job))
		body, err := json.Marshal(wire.HookResults{Results: runner(job, string(line))})
		f.must(err)
		_, err = conn.Write(wire.AppendRequest(nil, wire.Request{Kind: wire.KindHookResults, Body: body}))
		f.must(err)
	})
}

// exchange asks about a call; then plays what follows the order to run hooks.
func (f *fixture) exchange(req wire.Request, then func(net.Conn)) wire.Reply {
	f.t.Helper()
	conn := f.dial()
	defer func() { _ = conn.Close() }()
	_, err := conn.Write(wire.AppendRequest(nil, req))
	f.must(err)
	reply, err := wire.ReadReply(conn, wire.MaxOutput)
	f.must(err)
	if reply.Kind != wire.KindHooks {
		return reply
	}
	if len(reply.Out)+len(reply.Err) != 0 {
		f.t.Errorf("the gate was told more than to become the runner: %q", reply.Out)
	}
	then(conn)
	reply, err = wire.ReadReply(conn, wire.MaxOutput)
	f.must(err)
	return reply
}

func (f *fixture) call(tool, input string) wire.Request {
	return f.hook("PreToolUse", wire.RoleDecide, "1", tool, input)
}

// lastPolicies are those of the newest record of a verdict. Records of calls may
// change places until it is asked.
func (f *fixture) lastPolicies() (last []audit.PolicyResult) {
	f.t.Helper()
	asked := f.sessions.All()[0].View(f.clock.Now()).Calls
	f.eventually("each verdict is on record", func() bool { // a denial is answered first
		f.must(f.audit.Flush(context.Background()))
		n := uint64(0)
		f.must(audit.Read(f.opt.Paths.AuditDir, func(r audit.Record, line []byte) error {
			if r.Event == audit.EventVerdict {
				n, last = n+max(1, r.Count), r.Policies
			}
			if strings.Contains(string(line), "secret") {
				f.t.Errorf("the audit has an input: %s", line)
			}
			return nil
		}))
		return n >= asked
	})
	return last
}

func noRunner(t *testing.T) play {
	return func(wire.HookJob, string) []wire.HookResult { t.Error("hooks run"); return nil }
}

// TestM39_PlaceOfPolicies: after the lease, before the checkpoint; reads are
// judged too; what is denied anyway asks nobody.
func TestM39_PlaceOfPolicies(t *testing.T) {
	f, s := hookedFixture(t, nil)
	no := results(denied("no push"))
	f.session()
	s.set(met("h"))
	f.expect(f.judged(f.call("Bash", `{}`), noRunner(t)), "lease_unverified")
	f.expect(f.judged(f.call("Read", `{"file_path":"`+f.opt.Paths.Config+`"}`), noRunner(t)), "guard_file")
	if s.times() != 0 {
		t.Errorf("policies were asked %d times about calls that are denied anyway", s.times())
	}
	f.expect(f.judged(f.call("Read", `{}`), no), "policy_denied")
	f.expect(f.judged(f.call("Read", `{}`), results(allowed)), "")
	if r := f.approve(f.sessions.All()[0].ID); r.Error != nil {
		t.Fatal(r.Error)
	}
	f.expect(f.judged(f.call("Bash", `{}`), no), "policy_denied")
	f.expect(f.judged(f.hook("PreSkillShellCommand", wire.RoleDecide, "1", "x", `{}`), no), "policy_denied")
	if all := s.calls(); all[len(all)-1].Event.Tool != "Bash" || !all[len(all)-1].Mutator || all[0].Mutator {
		t.Errorf("policies were told %+v", all)
	}
	if n := f.zvm.asked(); n != 0 {
		t.Errorf("%d checkpoints were taken for denied calls", n)
	}
	f.expect(f.judged(f.call("Bash", `{}`), results(allowed)), "")
	if f.zvm.asked() != 1 {
		t.Error("no checkpoint was taken for the passed call")
	}
	before := s.times()
	f.send(wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleDecide, Body: []byte(`{"hook_event_name":"UserPromptSubmit","session_id":"s"}`)})
	f.send(wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleDecide, Body: []byte(`{"hook_event_name":"ConfigChange","session_id":"s"}`)})
	if s.times() != before {
		t.Error("hooks were asked about what is no call")
	}
}

// TestT6_HooksGrantNothing: what all policies let pass is neutral to the host, and
// a lease that ended while they thought is gone.
func TestT6_HooksGrantNothing(t *testing.T) {
	f, s := hookedFixture(t, nil)
	v := f.verified()
	s.set(met("h"))
	if r := f.judged(f.call("Read", `{}`), results(allowed)); string(r.Out) != "{}" {
		t.Errorf("a read is answered %s", r.Out)
	}
	r := f.judged(f.call("Write", `{}`), func(wire.HookJob, string) []wire.HookResult {
		f.verb(context.Background(), wire.Control{Verb: wire.VerbRevoke, Session: v.ID}, nil)
		return []wire.HookResult{allowed}
	})
	f.expect(r, "lease_revoked")
}

// TestM37_M38_W14_DenyWins: all that was met is on record, and denials stand in
// the order of the definitions, cut to fit.
func TestM37_M38_W14_DenyWins(t *testing.T) {
	f, s := hookedFixture(t, nil)
	f.verified()
	s.set(met("a"), met("b"), met("c"), met("d"))
	broken := wire.HookResult{Status: wire.HookFailed, Reason: "it broke", Exit: -1, Signal: "SIGSEGV", DurationUS: 5}
	r := f.judged(f.call("Bash", `{"command":"secret"}`), results(allowed, denied("first\nline"), broken, denied(strings.Repeat("x", 4000))))
	f.expect(r, "policy_denied")
	text := string(r.Err)
	if a, b := strings.Index(text, `hook "b": first line`), strings.Index(text, `hook "d": xxx`); a < 0 || b < a || len(text) > 1001 || !strings.Contains(text, "Next: ") || strings.Contains(text, "broke") {
		t.Errorf("the reason is %s", text)
	}
	got := f.lastPolicies()
	if len(got) != 4 {
		t.Fatalf("on record are %+v", got)
	}
	want := audit.PolicyResult{Kind: "hook", ID: "c", Source: "user", Hash: "sha256:c", Matcher: "*", Status: "failed", Exit: -1, Signal: "SIGSEGV", DurationUS: 5, Decision: "deny"}
	if got[2] != want || got[0].Decision != "pass" || got[1].Status != "denied" || got[1].Exit != 2 || got[3].Decision != "deny" {
		t.Errorf("on record are %+v", got)
	}
}

// TestW1_M40_FailuresDeny: what isn't a clean word of each hook denies, unless its
// definition says that its failure means nothing.
func TestW1_M40_FailuresDeny(t *testing.T) {
	f, s := hookedFixture(t, nil)
	f.verified()
	lax := met("lax")
	lax.Allows = true
	failed := wire.HookResult{Status: wire.HookFailed, Reason: "it exited with status 1", Exit: 1}
	aborted := wire.HookResult{Status: wire.HookAborted, Exit: -1}
	for name, tc := range map[string]struct {
		met  []policy.Met
		run  play
		code string
	}{
		"failed":                       {[]policy.Met{met("h")}, results(failed), "policy_unavailable"},
		"failed, which may be":         {[]policy.Met{lax}, results(failed), ""},
		"failed, beside a denial":      {[]policy.Met{lax, met("h")}, results(failed, denied("no")), "policy_denied"},
		"a denial by the lax one":      {[]policy.Met{lax, met("h")}, results(denied("no"), failed), "policy_denied"},
		"aborted":                      {[]policy.Met{lax}, results(aborted), "policy_unavailable"},
		"a status that is none":        {[]policy.Met{lax}, results(wire.HookResult{Status: "Allowed"}), "policy_unavailable"},
		"no status":                    {[]policy.Met{lax}, results(wire.HookResult{}), "policy_unavailable"},
		"fewer results than hooks":     {[]policy.Met{met("h"), met("i")}, results(allowed), "policy_unavailable"},
		"more results than hooks":      {[]policy.Met{met("h")}, results(allowed, allowed), "policy_unavailable"},
		"no results":                   {[]policy.Met{met("h")}, results(), "policy_unavailable"},
		"more hooks than there may be": {make([]policy.Met, wire.MaxHooks+1), noRunner(t), "policy_unavailable"},
	} {
		for i := range tc.met {
			tc.met[i].Trusted = true
		}
		s.set(tc.met...)
		for _, tool := range []string{"Read", "Write"} {
			t.Run(name+" "+tool, func(t *testing.T) {
				f.t = t
				f.expect(f.judged(f.call(tool, `{}`), tc.run), tc.code)
			})
		}
	}
}

// TestW1_RunnerThatMisbehaves: whatever comes in the place of the exchange is a
// denial, also of who is no runner.
func TestW1_RunnerThatMisbehaves(t *testing.T) {
	f, s := hookedFixture(t, nil)
	f.verified()
	s.set(met("h"))
	ready := wire.AppendRequest(nil, wire.Request{Kind: wire.KindHooksReady})
	for name, bytes := range map[string][]byte{
		"results at once": wire.AppendRequest(nil, wire.Request{Kind: wire.KindHookResults, Body: []byte(`{"results":[]}`)}),
		"another event":   wire.AppendRequest(nil, f.call("Read", `{}`)),
		"ready twice":     append(append([]byte{}, ready...), ready...),
		"rubbish":         []byte(strings.Repeat("x", 100)),
		"results that are none": append(append([]byte{}, ready...),
			wire.AppendRequest(nil, wire.Request{Kind: wire.KindHookResults, Body: []byte(`{"results":[{"status":"allowed"}],"x":1}`)})...),
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			f.expect(f.exchange(f.call("Write", `{}`), func(conn net.Conn) {
				_, err := conn.Write(bytes)
				f.must(err)
				if strings.HasPrefix(string(bytes), string(ready)) {
					_, _, err := wire.ReadHookJob(conn)
					f.must(err)
				}
			}), "policy_unavailable")
		})
	}
	f.t = t
	conn := f.dial()
	_, err := conn.Write(wire.AppendRequest(nil, f.call("Write", `{}`)))
	f.must(err)
	_, err = wire.ReadReply(conn, wire.MaxOutput)
	f.must(err)
	f.must(conn.Close())
	f.eventually("a runner that is gone is a denial on record", func() bool { return f.found(audit.EventVerdict, "policy_unavailable", "start guard hooks run") > 0 })
	f.must(os.Chmod(f.guard, 0o777))
	f.expect(f.judged(f.call("Write", `{}`), noRunner(t)), "policy_unavailable")
}

// TestM26_W12_Untrusted: what nobody trusted doesn't run; it denies, or is skipped
// where the configuration says so.
func TestM26_W12_Untrusted(t *testing.T) {
	for _, skip := range []bool{false, true} {
		f, s := hookedFixture(t, func(c *config.Config) {
			if skip {
				c.Hooks.Untrusted = "skip"
			}
		})
		f.verified()
		mine, theirs := met("mine"), met("theirs")
		theirs.Trusted, theirs.Source, theirs.Why = false, "project", "project_policy_changed"
		changed := wire.HookResult{Status: wire.HookChanged, Reason: "changed", Exit: -1}
		code, decision := "policy_unavailable", "deny"
		if skip {
			code, decision = "", "pass"
		}
		s.set(mine, theirs)
		r := f.judged(f.call("Write", `{}`), func(job wire.HookJob, _ string) []wire.HookResult {
			if !skip || len(job.Hooks) != 1 || job.Hooks[0].ID != "mine" {
				t.Errorf("%d hooks run", len(job.Hooks))
			}
			return []wire.HookResult{allowed}
		})
		f.expect(r, code)
		if !skip && !strings.Contains(string(r.Err), "project_policy_changed") {
			t.Errorf("the reason is %s", r.Err)
		}
		if p := f.lastPolicies()[0]; p.ID != "theirs" || p.Status != "skipped_untrusted" || p.Decision != decision || p.Exit != -1 {
			t.Errorf("on record is %+v", p)
		}
		lax := mine
		lax.Allows = true
		s.set(lax)
		f.expect(f.judged(f.call("Write", `{}`), results(changed)), "policy_unavailable")
		if p := f.lastPolicies(); len(p) != 1 || p[0].Status != "changed" || p[0].Decision != "deny" {
			t.Errorf("on record is %+v", p)
		}
		theirs.Missed = true // it was trusted, and what took its place isn't in force yet
		s.set(mine, theirs)
		f.expect(f.judged(f.call("Write", `{}`), results(allowed)), "policy_unavailable")
		f.stop()
	}
}

// TestW2_M40_FaultDeniesWhatChanges: definitions that can't be known deny what
// changes something, and leave the others in force.
func TestW2_M40_FaultDeniesWhatChanges(t *testing.T) {
	f, s := hookedFixture(t, nil)
	f.verified()
	s.set(met("user's"))
	s.mu.Lock()
	s.fault = errors.New(`"/w/.guard/hooks.json" line 1: no object`)
	s.mu.Unlock()
	r := f.judged(f.call("Write", `{}`), noRunner(t))
	f.expect(r, "policy_unavailable")
	if !strings.Contains(string(r.Err), "hooks.json") || !strings.Contains(string(r.Err), "line 1") {
		t.Errorf("the reason is %s", r.Err)
	}
	f.expect(f.judged(f.call("Read", `{}`), results(allowed)), "")
	f.expect(f.judged(f.call("Read", `{}`), results(denied("no"))), "policy_denied")
}

// The server is asked after the hooks, and not about what they deny.
func TestServerAfterHooks(t *testing.T) {
	f, s := hookedFixture(t, nil)
	f.verified()
	set := *f.settings()
	set.server = s
	f.current.Store(&set)
	s.set(met("h"))
	f.expect(f.judged(f.call("Read", `{}`), results(denied("no"))), "policy_denied")
	if f.lastPolicies(); s.judgements() != 0 {
		t.Error("the server was asked about a call that hooks deny")
	}
	s.think(policy.Opinion{Denied: true, Code: "policy_denied", Cause: "no prod", Next: "ask", Result: &audit.PolicyResult{Kind: audit.PolicyServer, Status: "denied", Decision: audit.PolicyDenies}})
	f.expect(f.judged(f.call("Read", `{}`), results(allowed)), "policy_denied")
	if p := f.lastPolicies(); len(p) != 2 || p[1].Kind != audit.PolicyServer {
		t.Errorf("on record are %+v", p)
	}
	s.think(policy.Opinion{Denied: true, Code: "anything"})
	f.expect(f.judged(f.call("Read", `{}`), results(allowed)), "policy_unavailable")
	s.think(policy.Opinion{})
	f.expect(f.judged(f.call("Read", `{}`), results(allowed)), "")
}

// TestNoPolicyMetCostsNothing: a call that meets no policy pays for some
// comparisons, and for no memory.
func TestNoPolicyMetCostsNothing(t *testing.T) {
	f := newFixture(t, nil)
	f.session()
	ev, err := dialect.Parse(wire.HostClaude, wire.RoleDecide, f.call("Bash", `{}`).Body)
	f.must(err)
	c := &call{session: f.sessions.All()[0], set: f.settings(), host: wire.HostClaude, role: wire.RoleDecide, event: ev, own: true, class: classMutator}
	if n := testing.AllocsPerRun(100, func() {
		if _, final := f.policies(t.Context(), c); final {
			t.Error("it is denied")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
