//go:build hosts

package hosts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"leaseguard.internal/internal/fakemodel"
	"leaseguard.internal/internal/zvmsim"
)

// claudes are the launches of Claude, each with what makes a world one of its.
var claudes = map[string]func(*guarded) *guarded{
	"claude":  func(g *guarded) *guarded { return g },
	"claudex": (*guarded).claudex,
}

// claudex makes a world one of claudex: its user's configuration is elsewhere,
// for the client by itself too.
func (g *guarded) claudex() *guarded {
	g.t.Helper()
	g.runtime, g.Config = "claudex", filepath.Join(g.Home, ".claudex")
	g.State = filepath.Join(g.Config, ".claude.json")
	must(g.t, os.MkdirAll(g.Config, 0o700))
	g.Env = append(g.Env, "CLAUDE_CONFIG_DIR="+g.Config)
	return g
}

// TestClaudexStory is the promise of the product on claudex, with the dangerous
// flag: reads pass, changes need a lease and a checkpoint that the model is told
// of, and a compaction ends it. Its settings keep what was in them.
func TestClaudexStory(t *testing.T) {
	t.Parallel()
	g, sim := newProtected(t, "")
	g.claudex()
	g.Env = g.Env[:len(g.Env)-1] // the directory is named by guard's own flag
	const before = "{\n  \"permissions\": { \"deny\": [\"WebFetch\"] }\n}\n"
	settings := filepath.Join(g.Config, "settings.json")
	g.write(settings, before)
	must(t, os.Chmod(settings, 0o640))
	text := filepath.Join(g.Project, "read.txt")
	g.write(text, "what it says")
	acts := []act{
		{name: "read", tool: "Read", input: input(t, "file_path", text), want: "ok: 1\twhat it says"},
		{name: "early", tool: "Bash", input: g.touch(), want: "lease_unverified", after: func() {
			if g.marked() || len(sim.Timings()) != 0 {
				t.Error("a denied call changed something")
			}
		}},
		{name: "bash", tool: "Bash", input: g.touch(), want: "ok: ", before: g.approve},
		{name: "late", tool: "Bash", input: input(t, "command", "rm "+g.Marker), want: "lease_revoked"},
	}
	steps := plan(acts)
	steps[2] = long(steps[2])
	g.steps(steps...)
	g.ok(g.launchAs("--config-dir", g.Config, "--", "-p", "go", "--dangerously-skip-permissions"))
	g.came(acts)
	g.toldOf(sim, "bash", "app-01")
	g.lowered("the host told of lost context: compaction")
	if !g.marked() || len(sim.Timings()) != 1 {
		t.Errorf("marked %v, %d checkpoints", g.marked(), len(sim.Timings()))
	}
	after, err := os.ReadFile(settings)
	if err != nil || !strings.HasPrefix(string(after), `{"hooks":{`) || !strings.HasSuffix(string(after), strings.TrimPrefix(before, "{")) {
		t.Errorf("the settings are now %s, %v", after, err)
	}
	if info, err := os.Stat(settings); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the settings' mode: %v, %v", info.Mode(), err)
	}
	if _, err := os.Stat(filepath.Join(g.Home, ".claude/projects")); err == nil {
		t.Error("the conversation is in the directory of claude")
	}
}

// TestClaudexWithoutGuard: Claude started in claudex's directory without guard
// asks the gate, which denies; a project can silence that, and not a launch.
func TestClaudexWithoutGuard(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "").claudex()
	g.steps(fakemodel.Say("settled"), fakemodel.Use("Bash", g.touch()), fakemodel.Say("sorry"), fakemodel.Use("Bash", g.touch()), fakemodel.Say("done"), fakemodel.Use("Bash", `{"command":"rm `+g.Marker+`"}`))
	g.ok(g.launch())
	w := g.direct()
	w.ok(w.run())
	if got := g.results(); g.marked() || len(got) != 1 || !strings.Contains(got[0], "guard: not_registered: ") {
		t.Fatalf("without guard, marked %v, the model was told %q", g.marked(), got)
	}
	g.write(filepath.Join(g.Project, ".claude/settings.json"), object{"disableAllHooks": true})
	w.ok(w.run())
	if !g.marked() {
		t.Error("a project can't silence the hook in the file any more: say so in docs/hosts.md")
	}
	closed("claudex", "settings file alone", "a project's disableAllHooks silences the gate that stands in the settings file",
		"a launch installs it in its arguments too; the file is for starts without guard").report(t)
	g.ok(g.launch())
	if got := g.results(); !g.marked() || len(got) != 3 || !strings.Contains(got[2], early) {
		t.Errorf("marked %v, the model was told %q", g.marked(), got)
	}
}

// TestT3_ClaudexSettings: settings that are a link, or that the client would
// skip, end the launch, and are left alone.
func TestT3_ClaudexSettings(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "").claudex()
	g.steps()
	settings, store := filepath.Join(g.Config, "settings.json"), filepath.Join(g.Dir, "store/real.json")
	g.write(store, "{}")
	must(t, os.Symlink("a.json", settings))
	must(t, os.Symlink("../../store/real.json", filepath.Join(g.Config, "a.json")))
	g.noSession(g.launch(), "config_invalid", settings, "symbolic link")
	for link, want := range map[string]string{settings: "a.json", filepath.Join(g.Config, "a.json"): "../../store/real.json"} {
		if target, err := os.Readlink(link); err != nil || target != want {
			t.Errorf("%s leads to %q, %v", link, target, err)
		}
	}
	if text, err := os.ReadFile(store); err != nil || string(text) != "{}" {
		t.Errorf("the file behind the links holds %q, %v", text, err)
	}
	must(t, os.Remove(settings))
	const bad = `{"hooks":{"PreToolUse":[{"matcher":{"type":"always"},"hooks":[]}]}}`
	g.write(settings, bad)
	g.noSession(g.launch(), "config_invalid", settings, "at hooks.PreToolUse[0].matcher: want a string")
	if text, err := os.ReadFile(settings); err != nil || string(text) != bad {
		t.Errorf("the malformed settings are now %q, %v", text, err)
	}
}

// TestF3_ClaudexGateFails: as for claude, a gate that can't answer blocks.
func TestF3_ClaudexGateFails(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "").claudex()
	gate := g.ownPrograms()
	pid := 0
	acts := []act{
		{name: "missing", tool: "Bash", input: g.touch(), want: "error: ", before: func() { g.approve(); must(t, os.Rename(gate, gate+"-away")) }},
		{name: "exit 1", tool: "Bash", input: g.touch(), want: "error: ", before: func() { must(t, os.WriteFile(gate, []byte("#!/bin/sh\nexit 1\n"), 0o755)) }, after: func() {
			if g.marked() {
				t.Error("it ran without the gate's answer")
			}
			must(t, os.Rename(gate+"-away", gate))
		}},
		{name: "killed", tool: "Bash", input: g.touch(), want: "error: ", before: func() {
			pid = g.brokerPID()
			must(t, syscall.Kill(pid, syscall.SIGSTOP))
			go killGate(gate)
		}, after: func() { must(t, syscall.Kill(pid, syscall.SIGCONT)) }},
		{name: "whole", tool: "Bash", input: input(t, "command", "true"), want: "ok: "},
	}
	g.steps(plan(acts)...)
	g.ok(g.launch())
	g.came(acts)
	if g.marked() {
		t.Error("it ran without the gate's answer")
	}
}

// TestF2_ClaudexGateAnswersFirst: a checkpoint that never completes is a denial
// of guard's own.
func TestF2_ClaudexGateAnswersFirst(t *testing.T) {
	t.Parallel()
	g, sim := newProtected(t, short)
	g.claudex()
	must(t, sim.Set("*", zvmsim.Faults{Insert: zvmsim.InsertStuck}))
	acts := []act{{name: "stuck", tool: "Bash", input: g.touch(), want: "checkpoint_timeout", before: g.approve}}
	g.steps(plan(acts)...)
	g.ok(g.launch())
	g.came(acts)
	if g.marked() {
		t.Error("it ran without a checkpoint")
	}
}

// TestR1_R2_T6_Claudex: a pass is no allow, a changed conversation has no lease,
// and neither has a resumed one, by whoever's --resume.
func TestR1_R2_T6_Claudex(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "").claudex()
	bash := func(name string) probe { return probe{name: name, tool: "Bash", input: g.touch()} }
	session := ""
	g.steps(
		between(g.approve, bash("unasked").step()), between(func() { session = g.sessions()[0].ID }, fakemodel.Say("first")),
		bash("continued").step(), fakemodel.Say("second"),
		bash("resumed").step(), fakemodel.Say("third"),
	)
	g.ok(g.launchAs("--", "-p", "go"))
	if told := g.told(bash("unasked").id()); g.marked() || strings.Contains(told, "guard: ") || !strings.HasPrefix(told, "error: ") {
		t.Errorf("T6: marked %v, the model was told %q", g.marked(), told)
	}
	earlier := g.passed("unasked").HostSession
	g.ok(g.launch("--resume", earlier, "--fork-session"))
	g.lowered(`the host told of lost context: session start "fork"`)
	g.ok(g.launchAs("--resume", session, "--", "-p", "go", "--dangerously-skip-permissions", "--continue"))
	for _, name := range []string{"continued", "resumed"} {
		if told := g.told(bash(name).id()); g.marked() || !strings.Contains(told, "the session's lease is UNVERIFIED") {
			t.Errorf("%s: marked %v, the model was told %q", name, g.marked(), told)
		}
	}
}

// TestS2_L4_Claudex: switches of its environment and settings are dropped and
// said; and it is found where the client's installer puts it.
func TestS2_L4_Claudex(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "").claudex()
	g.steps(fakemodel.Use("Bash", g.touch()))
	local := filepath.Join(g.Home, ".claude/local")
	must(t, os.MkdirAll(local, 0o755))
	must(t, os.Symlink(claude, filepath.Join(local, "claude")))
	g.write(filepath.Join(g.Config, "settings.json"), object{"env": object{"CLAUDE_CODE_SAFE_MODE": "1", "CLAUDE_CONFIG_DIR": g.Home}})
	g.Env = append(g.Env, "CLAUDE_CODE_SIMPLE=1", "PATH="+g.bin+":/usr/bin:/bin")
	o := g.launch()
	g.ok(o)
	for _, want := range []string{"dropped from the environment: CLAUDE_CODE_SAFE_MODE, CLAUDE_CODE_SIMPLE, CLAUDE_CONFIG_DIR\n", "claude is not in PATH; using "} {
		if !strings.Contains(o.Stderr, want) {
			t.Errorf("stderr %q doesn't say %q", o.Stderr, want)
		}
	}
	g.denied()
	before := g.Model.Count()
	for _, flag := range []string{"--bare", "--safe-mode", "--settings={}", "--agents={}"} {
		if o := g.launch(flag); o.Exit != 3 || !strings.Contains(o.Stderr, "guard: flag_refused: launching claudex with ") {
			t.Errorf("%s: exit %d, %q", flag, o.Exit, o.Stderr)
		}
	}
	if g.Model.Count() != before || !slices.Contains(g.Env, "CLAUDE_CONFIG_DIR="+g.Config) {
		t.Error("a refused launch asked its model")
	}
}
