package broker

import (
	"context"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/broker/session"
	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// explaining is a guard.toml in which every row can be met.
func explaining(c *config.Config) {
	c.Tools = []catalog.Entry{
		{Match: "mcp__v__list", Class: catalog.ReadOnly, VMKind: catalog.ByName, Line: 3},
		{Match: "mcp__v__*", Class: catalog.Mutating, VMArg: "vm", VMKind: catalog.ByName, Line: 6},
	}
}

// explained asks a session's question as a process of it, which this one is.
func (f *fixture) explained(q wire.Explain, input string) wire.Result {
	f.t.Helper()
	text, err := json.Marshal(wire.Control{Verb: wire.VerbExplain, Explain: &q})
	f.must(err)
	reply := f.send(wire.Request{Kind: wire.KindControl, Control: text, Body: []byte(input)})
	var res wire.Result
	f.must(json.Unmarshal(reply.Out, &res, json.RejectUnknownMembers(true)))
	return res
}

// TestExplainAgreesWithTheVerdict: for each row, with a lease and without, what
// is explained is what a call then gets.
func TestExplainAgreesWithTheVerdict(t *testing.T) {
	f := newFixture(t, explaining)
	tests := []struct{ tool, input, without, with string }{
		{"Read", `{"file_path":"/etc/hostname"}`, "read_class", "read_class"},
		{"Read", `{"file_path":` + quoted(f.opt.Paths.DB) + `}`, "guard_file", "guard_file"},
		{"Bash", `{"command":"true"}`, "lease_unverified", "checkpoint_confirmed"},
		{"WebFetch", `{}`, "lease_unverified", "lease_only"},
		{"mcp__v__list", `{}`, "lease_unverified", "catalog_read_only"},
		{"mcp__v__off", `{"vm":"app-01"}`, "lease_unverified", "checkpoint_confirmed"},
		{"mcp__v__off", `{}`, "lease_unverified", "vm_missing"},
		{"mcp__v__off", `{"vm":{}}`, "lease_unverified", "malformed"},
		{"mcp__other__x", `{}`, "lease_unverified", "tool_unlisted"},
		{"Bash", `[]`, "malformed", "malformed"},
	}
	s := f.session()
	f.expect(f.ask("Read"), "")
	for _, lease := range []string{"UNVERIFIED", "VERIFIED"} {
		if lease == "VERIFIED" {
			f.must(orNil(f.approve(s.ID).Error))
		}
		for _, tt := range tests {
			want := tt.without
			if lease == "VERIFIED" {
				want = tt.with
			}
			res := f.explained(wire.Explain{Tool: tt.tool, Dir: "/"}, tt.input)
			if res.Error != nil || res.Explained.Session != s.ID {
				t.Fatalf("%s %s: %+v, %v", tt.tool, tt.input, res.Explained, res.Error)
			}
			first, last := res.Explained.Answers[0], res.Explained.Answers[len(res.Explained.Answers)-1]
			if first.Code != want || last.Code != tt.with || first.Row == "" || last.Row == "" || first.Lease != lease && first.Lease != "any" {
				t.Errorf("%s, %s %s: explained as %+v, then %+v; want %s, then %s", lease, tt.tool, tt.input, first, last, want, tt.with)
			}
			r := f.send(wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleDecide,
				Body: []byte(`{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"` + tt.tool + `","tool_input":` + tt.input + `}`)})
			asked := strings.Contains(string(r.Out), `"permissionDecision":"ask"`)
			if (r.Exit == 2) != (first.Verdict == "deny") || asked != (first.Verdict == "ask") {
				t.Errorf("%s, %s %s: explained as %s, and the call got exit %d %s", lease, tt.tool, tt.input, first.Verdict, r.Exit, r.Out)
			}
			if said := strings.TrimSuffix(string(r.Err), "\n"); r.Exit == 2 && want != "malformed" && said != first.Reason {
				t.Errorf("%s: explained by\n%s\nand the call was denied by\n%s", tt.tool, first.Reason, r.Err)
			}
		}
	}
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func orNil(e *wire.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// TestExplainDoesNothing: nothing is counted, recorded, heard or asked of the
// ZVM, whoever asks and however often.
func TestExplainDoesNothing(t *testing.T) {
	f := newFixture(t, explaining)
	s := f.session()
	f.eventually("the launch is recorded", func() bool { // behind the start and the registration
		f.must(f.audit.Flush(context.Background()))
		return f.audit.Head().Seq == 3
	})
	head := f.audit.Head()
	for _, tool := range []string{"Read", "Bash", "mcp__v__off"} {
		if res := f.explained(wire.Explain{Tool: tool}, `{"vm":"app-01"}`); res.Error != nil {
			t.Fatal(res.Error)
		}
		ctl := wire.Control{Verb: wire.VerbExplain, Explain: &wire.Explain{Tool: tool}}
		if res := f.explain(context.Background(), nil, nil, ctl, []byte(`{"vm":"app-01"}`), f.look); res.Error != nil {
			t.Fatal(res.Error)
		}
	}
	f.must(f.audit.Flush(context.Background()))
	view := f.sessions.ByID(s.ID).View(f.clock.Now())
	if f.audit.Head() != head || view.Calls != 0 || view.GateSeen || view.State != "UNVERIFIED" || f.zvm.asked() != 0 {
		t.Errorf("head %v, before %v; %+v; %d inserts", f.audit.Head(), head, view, f.zvm.asked())
	}
}

// TestExplainForAnybody: outside of sessions both sides of the lease are shown,
// and the ZVM is asked.
func TestExplainForAnybody(t *testing.T) {
	f := newFixture(t, explaining)
	ask := func(tool, runtime, input string) wire.Result {
		ctl := wire.Control{Verb: wire.VerbExplain, Explain: &wire.Explain{Tool: tool, Runtime: runtime}}
		return f.explain(context.Background(), nil, nil, ctl, []byte(input), f.look)
	}
	e := ask("mcp__v__off", "claudex", `{"vm":"db-01"}`).Explained
	if e == nil || len(e.Answers) != 2 || e.Answers[0].Code != "lease_unverified" || e.Answers[1].Code != "checkpoint_confirmed" ||
		e.Answers[1].Unasked || len(e.Answers[1].Checkpoints) != 1 || e.Entry.Match != "mcp__v__*" || e.Entry.Line != 6 || e.Targets[0] != "db-01" || e.Class != "mutator" {
		t.Errorf("%+v", e)
	}
	if e := ask("Bash", "", `{}`).Explained; e == nil || e.Runtime != "claude" || e.Builtin != "changes_self" || e.Entry != nil {
		t.Errorf("%+v", e)
	}
	for _, runtime := range []string{"exec", "bash", "Claude"} {
		if res := ask("Bash", runtime, `{}`); codeOf(res) != verdict.BadRequest {
			t.Errorf("runtime %s: %+v, %v", runtime, res.Explained, res.Error)
		}
	}
	f.zvm.set(nil, &stubRefusal)
	if e := ask("Bash", "", `{}`).Explained; e.Answers[1].Verdict != "deny" || e.Answers[1].Code != "checkpoint_unsupported" {
		t.Errorf("%+v", e)
	}
	if res := f.explain(context.Background(), nil, nil, wire.Control{Verb: wire.VerbExplain}, nil, f.look); codeOf(res) != verdict.BadRequest {
		t.Errorf("no tool: %+v", res)
	}
	big := make([]byte, wire.MaxContext+1)
	if res := ask("Bash", "", string(big)); codeOf(res) != verdict.BadRequest {
		t.Errorf("a large input: %+v", res)
	}
}

// TestExplainTellsNoSecret: a session that hasn't become its runtime isn't told
// its nonce, by which its proof is known, and one of another runtime's host is
// told so.
func TestExplainTellsNoSecret(t *testing.T) {
	f := newFixture(t, nil)
	s, werr := f.register(wire.Register{Runtime: "claude", Dir: "/", Command: "test"})
	f.must(orNil(werr))
	if res := f.explained(wire.Explain{Tool: "Bash", Runtime: "codex"}, `{}`); codeOf(res) != verdict.BadRequest {
		t.Errorf("another host: %+v", res.Explained)
	}
	launching := &session.Session{ID: s.ID, Runtime: "claude", Nonce: "0123456789"}
	ctl := wire.Control{Verb: wire.VerbExplain, Explain: &wire.Explain{Tool: "Bash"}}
	res := f.explain(t.Context(), launching, nil, ctl, []byte(`{}`), f.unasked)
	if codeOf(res) != verdict.Proving || strings.Contains(res.Error.Message, launching.Nonce) {
		t.Errorf("%+v, %v", res.Explained, res.Error)
	}
}

// TestEachRowIsExplained: whatever code a foreseen answer has, it has words.
func TestEachRowIsExplained(t *testing.T) {
	for code, row := range rows {
		if row == "" || code == "" {
			t.Errorf("%q: %q", code, row)
		}
	}
}
