//go:build hosts

package hosts

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/fakemodel"
)

// TestStory is the promise of the product on the real client, unattended and
// with all permissions bypassed: nothing changes without a lease, nothing under
// a lease without a checkpoint that the model is told of.
func TestStory(t *testing.T) {
	t.Parallel()
	g, sim := newProtected(t, "")
	text := filepath.Join(g.Project, "read.txt")
	file := filepath.Join(g.Project, "written")
	g.write(text, "what it says")
	read, write := input(t, "file_path", text), input(t, "file_path", file, "content", "x")
	off := func(vm string) string { return input(t, "vm_name", vm) }
	untouched := func() {
		if _, err := os.Lstat(file); err == nil || g.marked() || len(sim.Timings()) != 0 {
			t.Errorf("a denied call changed something: %v, marked %v, %d checkpoints", err, g.marked(), len(sim.Timings()))
		}
	}
	calls := func(want ...string) func() {
		return func() {
			var got []string
			for _, c := range g.records("mcp-power_off_vm") {
				got = append(got, string(c))
			}
			if !slices.Equal(got, want) {
				t.Errorf("the MCP server was called with %q, want %q", got, want)
			}
		}
	}
	const vsphere = "mcp__vsphere__power_off_vm"
	acts := []act{
		{name: "read", tool: "Read", input: read, want: "ok: 1\twhat it says"},
		{name: "bash early", tool: "Bash", input: g.touch(), want: "lease_unverified", after: untouched},
		{name: "write early", tool: "Write", input: write, want: "lease_unverified", after: untouched},
		{name: "vm early", tool: vsphere, input: off("app-01"), want: "lease_unverified", after: calls()},
		{name: "bash", tool: "Bash", input: g.touch(), want: "ok: ", before: g.approve},
		{name: "write", tool: "Write", input: write, want: "ok: "},
		{name: "vm", tool: vsphere, input: off("db-01"), want: `ok: ran power_off_vm {"vm_name":"db-01"}`, after: calls(off("db-01"))},
		{name: "vm aws", tool: vsphere, input: off("win-aws-01"), want: "checkpoint_unsupported", after: calls(off("db-01"))},
		{name: "vm unknown", tool: vsphere, input: off("nobody"), want: "vm_unknown", after: calls(off("db-01"))},
		{name: "bash late", tool: "Bash", input: input(t, "command", "rm "+g.Marker), want: "lease_revoked", before: g.revoke},
		{name: "write late", tool: "Write", input: input(t, "file_path", file+"2", "content", "x"), want: "lease_revoked"},
		{name: "vm late", tool: vsphere, input: off("db-01"), want: "lease_revoked", after: calls(off("db-01"))},
	}
	g.steps(plan(acts)...)
	g.userServers(object{"vsphere": g.stub("power_off_vm")})
	g.ok(g.launch())
	g.came(acts)
	for name, vm := range map[string]string{"bash": "app-01", "write": "app-01", "vm": "db-01"} {
		g.toldOf(sim, name, vm)
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "x" || !g.marked() {
		t.Errorf("what was approved didn't happen: %q, %v, marked %v", content, err, g.marked())
	}
	if _, err := os.Lstat(file + "2"); err == nil {
		t.Error("a revoked session has written")
	}
	if got := len(sim.Timings()); got != 3 || len(g.alarms()) != 0 {
		t.Errorf("%d checkpoints for three passes, alarms %q", got, g.alarms())
	}
	r := g.awaitLog("the question", func(r audit.Record) bool { return r.Verdict == "ask" })
	if r.Code != "vm_unknown" || r.Tool != vsphere {
		t.Errorf("asked about %s: %s", r.Tool, r.Code)
	}
	if n := g.Model.Count(); n != len(acts)+1 {
		t.Errorf("%d requests for %d calls", n, len(acts))
	}
}

// TestStorySubagent plays it inside a subagent, which needs a lease to be
// started at all.
func TestStorySubagent(t *testing.T) {
	t.Parallel()
	g, sim := newProtected(t, "")
	text := filepath.Join(g.Project, "read.txt")
	g.write(text, "what it says")
	write := input(t, "file_path", g.Marker+"2", "content", "x")
	inside := []act{
		{name: "read", tool: "Read", input: input(t, "file_path", text), want: "ok: 1\twhat it says"},
		{name: "bash", tool: "Bash", input: g.touch(), want: "ok: "},
		{name: "write late", tool: "Write", input: write, want: "lease_revoked", before: g.revoke},
		{name: "bash late", tool: "Bash", input: input(t, "command", "rm "+g.Marker), want: "lease_revoked"},
		{name: "write again", tool: "Write", input: write, want: "ok: ", before: g.approve},
	}
	agent := `{"description":"help","prompt":"HELPER: go","subagent_type":"general-purpose","run_in_background":false}`
	outside := []act{
		{name: "agent early", tool: "Agent", input: agent, want: "lease_unverified"},
		{name: "agent", tool: "Agent", input: agent, want: "ok: ", before: g.approve},
		{name: "bash after", tool: "Bash", input: g.touch(), want: "lease_revoked", before: g.revoke},
	}
	g.script(fakemodel.Script{
		Steps:  plan(outside),
		Others: []fakemodel.Conversation{{Name: "helper", Match: fakemodel.Prompted("HELPER:"), Steps: plan(inside)}},
	})
	g.ok(g.launch())
	g.came(inside)
	g.came(outside)
	for _, name := range []string{"bash", "write again"} {
		g.toldOf(sim, name, "app-01")
		if r := g.passed(name); r.Agent == "" || r.AgentType != "general-purpose" {
			t.Errorf("%s: the record names agent %q of type %q", name, r.Agent, r.AgentType)
		}
	}
	if _, err := os.Lstat(g.Marker + "2"); err != nil || !g.marked() || len(g.alarms()) != 0 {
		t.Errorf("what was approved didn't happen: %v, marked %v, alarms %q", err, g.marked(), g.alarms())
	}
}

// TestStoryTwoCallsInOneTurn: each call of a turn is judged by itself.
func TestStoryTwoCallsInOneTurn(t *testing.T) {
	t.Parallel()
	g, sim := newProtected(t, "")
	text := filepath.Join(g.Project, "read.txt")
	g.write(text, "what it says")
	turn := func(n, want string) []act {
		return []act{
			{name: "read" + n, tool: "Read", input: input(t, "file_path", text), want: "ok: 1\twhat it says"},
			{name: "bash" + n, tool: "Bash", input: g.touch(), want: want},
			{name: "write" + n, tool: "Write", input: input(t, "file_path", g.Marker+"2", "content", "x"), want: want},
		}
	}
	early, good, late := turn(" early", "lease_unverified"), turn("", "ok: "), turn(" late", "lease_revoked")
	g.steps(atOnce(early), between(func() {
		if _, err := os.Lstat(g.Marker + "2"); err == nil || g.marked() {
			t.Error("a denied call has changed something")
		}
		g.approve()
	}, atOnce(good)), between(g.revoke, atOnce(late)))
	g.ok(g.launch())
	g.came(slices.Concat(early, good, late))
	tags := map[string]bool{}
	for _, name := range []string{"bash", "write"} {
		for _, c := range g.passed(name).Checkpoint {
			tags[c.Tag] = true
		}
	}
	var said int
	for _, r := range g.Model.Requests() {
		if last, err := r.Last(); err == nil && last.ID == "toolu_write" {
			for _, m := range protected.FindAllStringSubmatch(r.Messages[len(r.Messages)-1].Text(), -1) {
				if !tags[m[4]] {
					t.Errorf("the model was told of tag %q, the audit has %v", m[4], tags)
				}
				said++
			}
		}
	}
	if said != 2 || len(sim.Timings()) != 2 || len(tags) != 2 {
		t.Errorf("the model was told of %d checkpoints, the ZVM took %d, the audit has %v", said, len(sim.Timings()), tags)
	}
}

// TestT6_PassIsNoAllow: in the client's default mode a call that guard lets
// pass still needs its person's consent, and nobody is there to give it.
func TestT6_PassIsNoAllow(t *testing.T) {
	t.Parallel()
	g, _ := newProtected(t, "")
	acts := []act{
		{name: "read", tool: "Read", input: input(t, "file_path", filepath.Join(g.Project, "none")), want: "error: "},
		{name: "write", tool: "Write", input: input(t, "file_path", g.Marker, "content", "x"), want: "error: ", before: g.approve},
		{name: "bash", tool: "Bash", input: g.touch(), want: "error: "},
	}
	g.steps(plan(acts)...)
	g.ok(g.launchAs("--", "-p", "go"))
	g.came(acts)
	for _, name := range []string{"write", "bash"} {
		if told := g.told(probe{name: name}.id()); g.marked() || strings.Contains(told, "guard: ") {
			t.Errorf("%s: marked %v, the model was told %q", name, g.marked(), told)
		}
		if r := g.passed(name); r.Code != "checkpoint_confirmed" {
			t.Errorf("%s: %s", name, r.Code)
		}
	}
}

// atOnce makes the calls of several acts in one turn.
func atOnce(acts []act) fakemodel.Step {
	var calls []fakemodel.Call
	for _, a := range acts {
		calls = append(calls, fakemodel.Call{ID: a.probe().id(), Name: a.tool, Input: a.input})
	}
	return func(context.Context, *fakemodel.Request) (fakemodel.Turn, error) {
		return fakemodel.Turn{Calls: calls}, nil
	}
}

// input is a tool's arguments, given as keys and texts.
func input(t *testing.T, pairs ...string) string {
	t.Helper()
	o := object{}
	for i := 0; i < len(pairs); i += 2 {
		o[pairs[i]] = pairs[i+1]
	}
	return string(toJSON(t, o))
}
