//go:build hosts

package hosts

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/fakemodel"
)

// TestF6_CodexDeaf: one passed call keeps the client from starting hooks for all
// that follow. The broker sees it and ends the session.
func TestF6_CodexDeaf(t *testing.T) {
	t.Parallel()
	const deny = "grep -q -e touch -e Patch || exit 0; echo denied >&2; exit 2"
	touch := func(w *world) fakemodel.Step {
		return fakemodel.Use("exec_command", input(w.t, "cmd", "touch "+w.Marker, "workdir", "/"))
	}
	patch := func(w *world) fakemodel.Step {
		return fakemodel.Use("apply_patch", "*** Begin Patch\n*** Add File: "+w.Marker+"\n+x\n*** End Patch\n")
	}
	const directory = "user mode: the broker sees it within a second, takes the lease and ends the session; in system mode it can't see it"
	for _, c := range []struct {
		id, what, how, by, code string
		then                    func(w *world) fakemodel.Step
	}{
		{"directory_moved", "with the session's directory called otherwise the client starts no hook, and runs every tool", "cd / && mv PROJECT PROJECT.moved", directory, "directory_gone", touch},
		{"directory_closed", "with the session's directory closed to its user the client starts no hook, and runs every tool", "chmod 000 PROJECT", directory, "directory_gone", touch},
		{"limits_lowered", "with its limit of processes lowered the client starts no hook, and carries out patches and calls of servers", "prlimit --pid $PPID --nproc=1:1",
			"the broker sees it within a second, takes the lease and ends the session", "host_limited", patch},
	} {
		t.Run(c.id, func(t *testing.T) {
			t.Parallel()
			codexHole(c.id, c.what, "compensated", c.by).report(t)
			how := func(w *world) fakemodel.Step {
				t.Cleanup(func() { _ = os.Chmod(w.Project, 0o755) }) // so that it can be tidied up
				return w.shell(strings.ReplaceAll(c.how, "PROJECT", w.Project))
			}
			script := func(w *world, more string, steps ...fakemodel.Step) {
				w.codexSteps(more, steps...)
				text, err := readAll(w.codexHome("config.toml"))
				must(t, err)
				w.write(w.codexHome("config.toml"), strings.Replace(text, "gpt-5.4", "gpt-5.5", 1)) // which has patches
			}
			w := newWorld(t)
			w.forCodex()
			script(w, inTOML(deny)+trusted(w.codexHome("config.toml"), deny), how(w), c.then(w))
			if w.ok(w.codex()); !w.marked() {
				t.Fatalf("without guard it has no effect: %q", w.results())
			}
			g := newCodex(t, "")
			script(g.world, "", between(g.approve, how(g.world)), func(ctx context.Context, r *fakemodel.Request) (fakemodel.Turn, error) {
				select { // the client hangs up when it is ended
				case <-ctx.Done():
					return fakemodel.Turn{}, ctx.Err()
				case <-time.After(patience / 2):
					return c.then(g.world)(ctx, r)
				}
			})
			if o := g.launchCodex(); o.Exit != -1 || g.marked() {
				t.Errorf("the client ended with %d, marked %v: %s", o.Exit, g.marked(), o.Stderr)
			}
			g.awaitLog("the end", func(r audit.Record) bool { return r.Code == c.code })
		})
	}
}
