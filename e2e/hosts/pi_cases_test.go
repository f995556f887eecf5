//go:build hosts

package hosts

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leaseguard.internal/internal/fakemodel"
)

// TestL3_PiLaunch: whatever keeps guard's extension from being loaded, or Pi from
// asking the gate, ends the launch before it begins.
func TestL3_PiLaunch(t *testing.T) {
	spoil := func(gate string) func(*guarded) {
		return func(g *guarded) {
			must(g.t, replace(g.ownPrograms(), gate))
		}
	}
	for name, c := range map[string]struct {
		set    func(g *guarded)
		config string
		code   string
		words  string
	}{
		"a gate that passes all":             {set: spoil("#!/bin/sh\necho '{\"pass\":true}'\n"), words: "without the gate's denial of this launch"},
		"a gate that is none":                {set: spoil("\n"), words: "without the gate's denial of this launch"},
		"another extension has a load error": {set: func(g *guarded) { g.write(filepath.Join(g.Dir, "team.js"), "syntax error(") }, config: "team.js", words: "it ended (exit status 1)"},
		"another extension that isn't there": {config: "team.js", words: "launch.pi_extensions"},
		"another extension makes calls harmless": {set: func(g *guarded) {
			g.write(filepath.Join(g.Dir, "team.js"), `export default (pi) => { pi.on("tool_call", () => ({ block: true, reason: "not today" })); };`)
		}, config: "team.js", words: "not today"},
		"a user directory that Pi can't use": {set: func(g *guarded) {
			must(g.t, os.Rename(filepath.Join(g.Home, ".pi"), filepath.Join(g.Home, "pi")))
			g.write(filepath.Join(g.Home, ".pi"), "a file")
		}, code: "config_invalid", words: "not a directory"},
		"a user directory that Pi can't write to": {set: func(g *guarded) {
			dir := filepath.Join(g.Dir, agentDir)
			must(g.t, os.Chmod(dir, 0o500))
			g.t.Cleanup(func() { must(g.t, os.Chmod(dir, 0o700)) })
		}, words: "EACCES"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newPi(t, "")
			if c.config != "" {
				g.write(filepath.Join(g.Home, ".config/guard/guard.toml"), "[launch]\npi_extensions = ["+fmt.Sprintf("%q", filepath.Join(g.Dir, c.config))+"]\n[checkpoint]\nself = \"none\"\n")
			}
			g.piSteps(fakemodel.Use("bash", g.touch()))
			if c.set != nil {
				c.set(g)
			}
			g.noSession(g.launchPi(), cmp.Or(c.code, "wiring_unproved"), c.words)
		})
	}
}

// TestR2_PiResume: a conversation that is taken up again has no lease, and
// neither has guard's own next generation.
func TestR2_PiResume(t *testing.T) {
	t.Parallel()
	g := newPi(t, "")
	first := ""
	g.piSteps(
		between(func() { g.approve(); first = g.session().ID }, fakemodel.Use("bash", `{"command":"true"}`)), fakemodel.Say("first done"),
		fakemodel.Use("bash", g.touch()), fakemodel.Say("second done"),
		fakemodel.Use("bash", g.touch()), fakemodel.Say("third done"),
	)
	g.ok(g.launchPi())
	g.ok(g.launchPi("--continue"))
	g.ok(g.launchAs(slices.Concat([]string{"--resume", first, "--", "-p", "go", "--continue"}, piFlags)...))
	got := g.results()
	if len(got) != 3 || !strings.HasPrefix(got[0], "ok: ") || g.marked() {
		t.Fatalf("results %q, marked %v", got, g.marked())
	}
	for _, r := range got[1:] {
		if !strings.Contains(r, "the session's lease is UNVERIFIED") {
			t.Errorf("after a resume the model was told %q", r)
		}
	}
}

// TestT2_PiLaunch: nothing of a project's is loaded, which is said; the user's own
// settings end the launch when Pi would skip them.
func TestT2_PiLaunch(t *testing.T) {
	t.Parallel()
	t.Run("project", func(t *testing.T) {
		g := newPi(t, "")
		g.piSteps(fakemodel.Use("bash", g.touch()))
		g.write(filepath.Join(g.Project, ".pi/settings.json"), "{")
		o := g.launchPi()
		g.ok(o)
		if got := g.results(); !strings.Contains(o.Stderr, "of the project is not loaded: .pi/settings.json\n") || len(got) != 1 || !strings.Contains(got[0], early) {
			t.Errorf("the model was told %q, and stderr is %q", got, o.Stderr)
		}
	})
	t.Run("user", func(t *testing.T) {
		g := newPi(t, "")
		g.piSteps()
		g.write(filepath.Join(g.Dir, agentDir, "settings.json"), `{"defaultProjectTrust":"never",}`)
		g.noSession(g.launchPi(), "config_invalid", "settings.json", "line 1")
	})
}

// TestF6_PiDirectoryGone: when the session's directory is removed the broker takes
// the lease by itself, and Pi asks the gate all the same.
func TestF6_PiDirectoryGone(t *testing.T) {
	t.Parallel()
	g := newPi(t, "")
	acts := []act{
		{name: "before", tool: "bash", input: `{"command":"true"}`, want: "ok: ", before: g.approve, after: func() {
			must(t, os.RemoveAll(g.Project))
			g.lowered("the runtime's working directory is gone")
		}},
		{name: "write", tool: "write", input: input(t, "path", g.Marker, "content", "x"), want: "lease_revoked"},
	}
	g.piSteps(plan(acts)...)
	g.ok(g.launchPi())
	g.came(acts)
	if g.marked() {
		t.Error("it ran without a lease")
	}
}
