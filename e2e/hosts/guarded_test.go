//go:build hosts

package hosts

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/fakemodel"
	"leaseguard.internal/internal/wire"
)

// guarded is a world whose client is launched by guard. Its broker is its own.
type guarded struct {
	*world
	bin     string // guard's programs
	runtime string // what is launched; empty: claude
}

// newGuarded makes a world with guard in it. Changes of this host need a lease
// and no checkpoint; config is added to that.
func newGuarded(t *testing.T, config string) *guarded {
	t.Helper()
	g := &guarded{world: newWorld(t), bin: filepath.Join(filepath.Dir(self), "bin")}
	run := filepath.Join(g.Dir, "run")
	must(t, os.Mkdir(run, 0o700))
	g.Env = append(g.Env, "PATH="+filepath.Dir(claude)+":/usr/local/bin:/usr/bin:/bin", "XDG_RUNTIME_DIR="+run)
	if config == "" {
		config = "[checkpoint]\nself = \"none\"\n"
	}
	g.write(filepath.Join(g.Home, ".config/guard/guard.toml"), config)
	must(t, os.Chmod(filepath.Join(g.Home, ".config"), 0o700))
	must(t, os.Chmod(filepath.Join(g.Home, ".config/guard"), 0o700))
	t.Cleanup(func() { g.guard("broker", "stop") })
	return g
}

// guard runs one of guard's commands as an operator would.
func (g *guarded) guard(args ...string) outcome {
	g.t.Helper()
	cmd := exec.Command(filepath.Join(g.bin, "guard"), args...)
	cmd.Dir = g.Dir
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=" + g.Home}, g.Env...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // its code tells
	return outcome{Exit: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
}

// launch runs the client unattended under guard, with all permissions bypassed.
func (g *guarded) launch(args ...string) outcome {
	g.t.Helper()
	return g.launchAs(append([]string{"--", "-p", "go", "--dangerously-skip-permissions"}, args...)...)
}

// launchAs runs guard launch with exactly these arguments behind the runtime.
func (g *guarded) launchAs(args ...string) outcome {
	g.t.Helper()
	return g.as(filepath.Join(g.bin, "guard"), append([]string{"launch", cmp.Or(g.runtime, "claude")}, args...)...)
}

// sessions asks the broker.
func (g *guarded) sessions() []wire.Session {
	g.t.Helper()
	out := g.guard("status", "--json")
	var st wire.Status
	if err := json.Unmarshal([]byte(out.Stdout), &st); err != nil {
		g.t.Errorf("guard status: %v: %s", err, out.Stderr)
	}
	return st.Sessions
}

// operator makes a step that has the operator do something with the one session
// before the model goes on.
func (g *guarded) operator(command string, then fakemodel.Step) fakemodel.Step {
	return fakemodel.After(func(context.Context, *fakemodel.Request) error {
		all := g.sessions()
		if len(all) != 1 {
			g.t.Errorf("%d sessions, want one", len(all))
			return nil
		}
		if out := g.guard(command, all[0].ID); out.Exit != 0 {
			g.t.Errorf("guard %s ended with %d: %s", command, out.Exit, out.Stderr)
		}
		return nil
	}, then)
}

// noSession demands that a launch was refused with a code, without a turn of
// the session's own model.
func (g *guarded) noSession(o outcome, code string, words ...string) {
	g.t.Helper()
	line := ""
	for l := range strings.Lines(o.Stderr) {
		line = strings.TrimSpace(l) // the error is the last
	}
	if o.Exit != 3 || !strings.HasPrefix(line, "guard: "+code+": ") || !strings.Contains(line, ". Next: ") {
		g.t.Errorf("exit %d, stderr %q; want 3 and a reason with code %s", o.Exit, o.Stderr, code)
	}
	for _, w := range words {
		if !strings.Contains(line, w) {
			g.t.Errorf("the reason %q doesn't say %q", line, w)
		}
	}
	if g.Model.Count() != 0 || g.marked() {
		g.t.Errorf("the client ran: %d requests to its model, marked %v", g.Model.Count(), g.marked())
	}
}

const early = "guard: lease_unverified: "

// denied demands that the model made one call, which was denied for want of a
// lease.
func (g *guarded) denied() bool {
	g.t.Helper()
	got := g.results()
	ok := !g.marked() && len(got) == 1 && strings.Contains(got[0], early)
	if !ok {
		g.t.Errorf("marked %v, the model was told %q", g.marked(), got)
	}
	return ok
}

func itoa(n int) string { return strconv.Itoa(n) }
