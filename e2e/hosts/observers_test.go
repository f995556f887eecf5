//go:build hosts

package hosts

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/fakemodel"
)

// atTerminal launches the client in front of a person, who has accepted the
// bypass mode before, and waits until it takes input.
func (g *guarded) atTerminal(args ...string) *terminal {
	g.t.Helper()
	g.write(filepath.Join(g.Home, ".claude/settings.json"), object{"skipDangerousModePermissionPrompt": true})
	w := *g.world
	w.Client = filepath.Join(g.bin, "guard")
	x := w.interact(append([]string{"launch", "claude", "--"}, args...)...)
	g.heardEvent("SessionStart", 1)
	x.shown("❯")
	return x
}

// heardEvent waits until the broker has heard so many of an event.
func (g *guarded) heardEvent(event string, n int) {
	g.t.Helper()
	g.awaitLog(event, func(r audit.Record) bool {
		if r.HookEvent == event {
			n--
		}
		return n <= 0
	})
}

// TestObservers: whatever takes the conversation from the model takes the lease,
// though nobody called a tool.
func TestObservers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, typed, why string }{
		{"compact", "/compact", "compaction"},
		{"clear", "/clear", `session start "clear"`},
		{"resume", "/resume EARLIER", `session start "resume"`},
		{"branch", "/branch", `session start "fork"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newGuarded(t, "")
			before, after := probe{name: "before", tool: "Bash", input: g.touch()}, probe{name: "after", tool: "Bash", input: input(t, "command", "rm "+g.Marker)}
			g.steps(fakemodel.Say("hello"), before.step(), fakemodel.Say("touched"), after.step(), fakemodel.Say("sorry"))
			g.ok(g.launch())
			earlier := g.awaitLog("a conversation", func(r audit.Record) bool { return r.HookEvent == "SessionStart" }).HostSession
			x := g.atTerminal("--dangerously-skip-permissions")
			g.approve()
			x.enter("touch it")
			g.await("the marker", g.marked)
			x.shown("touched")
			x.enter(strings.ReplaceAll(c.typed, "EARLIER", earlier))
			g.lowered("the host told of lost context: " + c.why)
			if c.name != "compact" {
				g.lowered("the host's session id changed from ")
			}
			if s := g.session(); s.State != "UNVERIFIED" {
				t.Errorf("the session is %+v", s)
			}
			x.enter("take it away")
			g.await("an answer", func() bool { return g.told(after.id()) != "" })
			if last := g.told(after.id()); !g.marked() || !strings.Contains(last, "guard: lease_revoked: ") {
				t.Errorf("marked %v, the model was told %q", g.marked(), last)
			}
		})
	}
}

// TestObserversUnattended: a conversation that is taken up again, or grows too
// long, has no lease.
func TestObserversUnattended(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		why  string
	}{
		{"resume", []string{"--resume", "EARLIER"}, `session start "resume"`},
		{"continue", []string{"--continue"}, `session start "resume"`},
		{"fork", []string{"--resume", "EARLIER", "--fork-session"}, `session start "fork"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newGuarded(t, "")
			first, second := probe{name: "first", tool: "Bash", input: g.touch()}, probe{name: "second", tool: "Bash", input: input(t, "command", "rm "+g.Marker)}
			g.steps(between(g.approve, first.step()), fakemodel.Say("done"), second.step())
			g.ok(g.launch())
			if earlier := g.passed("first").HostSession; c.args[len(c.args)-1] == "EARLIER" || len(c.args) > 2 {
				c.args[1] = earlier
			}
			g.ok(g.launch(c.args...))
			if got := g.told(second.id()); !g.marked() || !strings.Contains(got, "guard: lease_revoked: ") {
				t.Errorf("marked %v, the model was told %q", g.marked(), got)
			}
			g.lowered("the host told of lost context: " + c.why)
		})
	}
	t.Run("automatic compaction", func(t *testing.T) {
		t.Parallel()
		g := newGuarded(t, "")
		before, after := probe{name: "before", tool: "Bash", input: g.touch()}, probe{name: "after", tool: "Bash", input: input(t, "command", "rm "+g.Marker)}
		g.steps(between(g.approve, long(before.step())), after.step())
		g.ok(g.launch())
		if got := g.told(after.id()); !g.marked() || !strings.Contains(got, "guard: lease_revoked: ") {
			t.Errorf("marked %v, the model was told %q", g.marked(), got)
		}
		g.lowered("the host told of lost context: compaction")
	})
}

// long makes a turn after which the client takes its conversation for too long.
func long(step fakemodel.Step) fakemodel.Step {
	return func(ctx context.Context, r *fakemodel.Request) (fakemodel.Turn, error) {
		turn, err := step(ctx, r)
		turn.Tokens = 990_000
		return turn, err
	}
}

// TestF6_DirectoryGone: when the session's directory is removed the broker takes
// the lease by itself. This client asks the gate from there all the same.
func TestF6_DirectoryGone(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "")
	acts := []act{
		{name: "before", tool: "Bash", input: `{"command":"true"}`, want: "ok: ", before: g.approve, after: func() {
			must(t, os.RemoveAll(g.Project)) // the client itself refuses to
			g.lowered("the runtime's working directory is gone")
			if s := g.session(); s.State != "UNVERIFIED" {
				t.Errorf("the session is %+v", s)
			}
		}},
		{name: "write", tool: "Write", input: input(t, "file_path", g.Marker, "content", "x"), want: "lease_revoked"},
		{name: "bash", tool: "Bash", input: g.touch(), want: "lease_revoked"},
	}
	g.steps(plan(acts)...)
	g.ok(g.launch())
	g.came(acts)
	if g.marked() {
		t.Error("it ran without a lease")
	}
}
