//go:build hosts

package hosts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leaseguard.internal/internal/fakemodel"
)

// TestPiStory is the promise of the product on the real Pi, unattended: nothing
// changes without a lease, nothing under a lease without a checkpoint that the
// model is told of.
func TestPiStory(t *testing.T) {
	t.Parallel()
	g, sim := newProtected(t, "")
	g.ofPi()
	text, file := filepath.Join(g.Project, "read.txt"), filepath.Join(g.Project, "written")
	g.write(text, "what it says")
	write := input(t, "path", file, "content", "x")
	untouched := func() {
		if _, err := os.Lstat(file); err == nil || g.marked() || len(sim.Timings()) != 0 {
			t.Errorf("a denied call changed something: %v, marked %v, %d checkpoints", err, g.marked(), len(sim.Timings()))
		}
	}
	acts := []act{
		{name: "read", tool: "read", input: input(t, "path", text), want: "ok: what it says"},
		{name: "bash early", tool: "bash", input: g.touch(), want: "lease_unverified", after: untouched},
		{name: "write early", tool: "write", input: write, want: "lease_unverified", after: untouched},
		{name: "bash", tool: "bash", input: g.touch(), want: "ok: ", before: g.approve},
		{name: "write", tool: "write", input: write, want: "ok: "},
		{name: "edit", tool: "edit", input: string(toJSON(t, object{"path": file, "edits": []any{object{"oldText": "x", "newText": "y"}}})), want: "ok: "},
		{name: "bash late", tool: "bash", input: input(t, "command", "rm "+g.Marker), want: "lease_revoked", before: g.revoke},
		{name: "write late", tool: "write", input: input(t, "path", file+"2", "content", "x"), want: "lease_revoked"},
	}
	g.piSteps(plan(acts)...)
	g.ok(g.launchPi())
	g.came(acts)
	for _, name := range []string{"bash", "write", "edit"} {
		g.toldOf(sim, name, "app-01")
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "y" || !g.marked() {
		t.Errorf("what was approved didn't happen: %q, %v, marked %v", content, err, g.marked())
	}
	if _, err := os.Lstat(file + "2"); err == nil {
		t.Error("a revoked session has written")
	}
	if got := len(sim.Timings()); got != 3 || len(g.alarms()) != 0 {
		t.Errorf("%d checkpoints for three passes, alarms %q", got, g.alarms())
	}
}

// TestR1_PiObservers: whatever takes the conversation from the model, or the gate
// from its process, takes the lease. Without guard there is none to take.
func TestR1_PiObservers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		do   func(r *rpc)
		why  string
	}{
		{"compact", func(r *rpc) { r.do("compact", nil) }, "compaction"},
		{"new session", func(r *rpc) { r.do("new_session", nil) }, "session"},
		{"fork", func(r *rpc) {
			m := r.do("get_fork_messages", nil)
			_, id, _ := strings.Cut(m.raw, `"entryId":"`)
			id, _, _ = strings.Cut(id, `"`)
			r.do("fork", object{"entryId": id})
		}, "session"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			hole{ID: "lease_" + strings.ReplaceAll(c.name, " ", "_"), State: "closed",
				What: "the conversation goes on under the lease of what was there before: " + c.name, By: "Pi's events of it lower the lease, and its extension has to come back"}.of("pi").report(t)
			g := newPi(t, "")
			g.write(filepath.Join(g.Dir, agentDir, "settings.json"), object{"compaction": object{"keepRecentTokens": 1}})
			before, after := probe{name: "before", tool: "bash", input: g.touch()}, probe{name: "after", tool: "bash", input: input(t, "command", "rm "+g.Marker)}
			g.piSteps(fakemodel.Say("hello"), before.step(), fakemodel.Say("touched"), after.step(), fakemodel.Say("sorry"))
			r := g.rpcGuarded()
			r.prompt("hello " + strings.Repeat("again ", 3000))
			g.approve()
			r.prompt("touch it")
			if !g.marked() {
				t.Fatalf("the approved call didn't run: %q", g.results())
			}
			c.do(r)
			g.lowered("the host told of lost context: " + c.why)
			if s := g.session(); s.State != "UNVERIFIED" {
				t.Errorf("the session is %+v", s)
			}
			r.prompt("take it away")
			if last := g.told(after.id()); !g.marked() || !strings.Contains(last, "guard: lease_revoked: ") {
				t.Errorf("marked %v, the model was told %q", g.marked(), last)
			}
			g.approve() // the handshake was made again, so that it can be
		})
	}
}
