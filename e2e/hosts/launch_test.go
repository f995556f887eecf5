//go:build hosts

package hosts

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leaseguard.internal/internal/fakemodel"
	host "leaseguard.internal/launcher/runtime"
)

// TestLaunchStory is a session of the real client from launch to revocation, in
// the mode in which agents run unattended.
func TestLaunchStory(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "")
	file := filepath.Join(g.Project, "written")
	write := string(toJSON(t, object{"file_path": file, "content": "x"}))
	g.write(filepath.Join(g.Project, "read.txt"), "what it says")
	untouched := func(context.Context, *fakemodel.Request) error {
		if _, err := os.Lstat(file); err == nil || g.marked() {
			t.Error("a denied call has changed something")
		}
		return nil
	}
	g.steps(
		fakemodel.Use("Read", string(toJSON(t, object{"file_path": filepath.Join(g.Project, "read.txt")}))),
		fakemodel.Use("Bash", g.touch()),
		fakemodel.Use("Write", write),
		fakemodel.After(untouched, g.operator("approve", fakemodel.Use("Bash", g.touch()))),
		fakemodel.Use("Write", write),
		g.operator("revoke", fakemodel.Use("Bash", g.touch())),
	)
	g.ok(g.launch())
	want := []string{"ok: 1\twhat it says", "guard: lease_unverified: ", "guard: lease_unverified: ", "ok: ", "ok: ", "guard: lease_revoked: "}
	got := g.results()
	for i, w := range want {
		if i >= len(got) || !strings.Contains(got[i], w) || strings.HasPrefix(w, "guard: ") != strings.HasPrefix(got[i], "error: ") {
			t.Fatalf("the model was told\n%q\nwant\n%q", got, want)
		}
	}
	if _, err := os.Lstat(file); err != nil || !g.marked() {
		t.Errorf("what was approved didn't happen: %v, marked %v", err, g.marked())
	}
}

// TestLaunchArguments: the client is started with guard's own arguments, each in
// one piece, then with its user's byte for byte, in the same directory.
func TestLaunchArguments(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "")
	args := []string{"-p", "--verbose", "--output-format", "stream-json", "go", "", "two words\nand a line", "ünï \xff"}
	var argv, dir string
	g.steps(func(context.Context, *fakemodel.Request) (fakemodel.Turn, error) {
		for _, s := range g.sessions() {
			text, err := os.ReadFile("/proc/" + itoa(s.AnchorPID) + "/cmdline")
			must(t, err)
			argv = string(text)
			dir, err = os.Readlink("/proc/" + itoa(s.AnchorPID) + "/cwd")
			must(t, err)
		}
		return fakemodel.Turn{Text: "done"}, nil
	})
	g.ok(g.launchAs(append([]string{"--"}, args...)...))
	all := strings.Split(strings.TrimSuffix(argv, "\x00"), "\x00")
	if len(all) != 4+len(args) || all[0] != "claude" || !strings.HasPrefix(all[1], "--settings={") || all[2] != "--setting-sources=" || all[3] != "--strict-mcp-config" {
		t.Fatalf("the client's arguments are %q", all)
	}
	for i, a := range args {
		if all[4+i] != a {
			t.Errorf("argument %d is %q, want %q", i, all[4+i], a)
		}
	}
	if want, err := filepath.EvalSymlinks(g.Project); err != nil || dir != want {
		t.Errorf("the client runs in %q, want %q, %v", dir, want, err)
	}
}

// TestLaunchUnproved: whatever keeps the client from asking the gate ends the
// launch before it begins.
func TestLaunchUnproved(t *testing.T) {
	broken := func(t *testing.T, g *guarded, gate string) {
		own := g.ownPrograms()
		must(t, os.Remove(own))
		if gate != "" {
			must(t, os.WriteFile(own, []byte(gate), 0o755))
		}
	}
	for _, c := range []struct {
		name  string
		set   func(t *testing.T, g *guarded)
		args  []string
		code  string
		words []string
	}{
		{"gate removed", func(t *testing.T, g *guarded) { broken(t, g, "") }, nil, "wiring_unproved", []string{"guard-gate", "no such file"}},
		{"gate that passes all", func(t *testing.T, g *guarded) { broken(t, g, "#!/bin/sh\nexit 0\n") }, nil, "wiring_unproved", []string{"Bash"}},
		{"gate that is none", func(t *testing.T, g *guarded) { broken(t, g, "\n") }, nil, "wiring_unproved", []string{"guard-gate"}},
		{"gate that others may write", func(t *testing.T, g *guarded) {
			broken(t, g, "#!/bin/sh\n")
			must(t, os.Chmod(filepath.Join(g.bin, "guard-gate"), 0o777))
		}, nil, "wiring_unproved", []string{"chmod go-w"}},
		{"an old client", nil, []string{"--client", claudeOld}, "client_too_old", []string{"2.1.197", "2.1.295", "npm install"}},
		{"provider switch", func(_ *testing.T, g *guarded) { g.Env = append(g.Env, "CLAUDE_CODE_USE_BEDROCK=1") }, nil, "wiring_unproved", []string{"CLAUDE_CODE_USE_BEDROCK", "session.env_pass"}},
		{"proxy", func(_ *testing.T, g *guarded) { g.Env = append(g.Env, "https_proxy=http://127.0.0.1:9") }, nil, "wiring_unproved", []string{"https_proxy", "session.env_pass"}},
		{"provider switch in the user's settings", func(_ *testing.T, g *guarded) {
			g.write(filepath.Join(g.Home, ".claude/settings.json"), object{"env": object{"CLAUDE_CODE_USE_VERTEX": "1"}})
		}, nil, "wiring_unproved", []string{"CLAUDE_CODE_USE_VERTEX"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.code == "client_too_old" {
				hole{Host: "claude", Version: "2.1.197", ID: "ignores_onfailure", What: "a hook that can't be started, ends otherwise or takes too long lets the tool run, whatever onFailure says",
					State: "closed", By: "a client before " + host.Oldest + " isn't launched"}.report(t)
			}
			g := newGuarded(t, "")
			g.steps(fakemodel.Use("Bash", g.touch()))
			if c.set != nil {
				c.set(t, g)
			}
			g.noSession(g.launchAs(append(c.args, "--", "-p", "go", "--dangerously-skip-permissions")...), c.code, c.words...)
		})
	}
}

// TestLaunchManagedSettings: an administrator's settings that silence guard's
// hooks end the launch. The stage that root makes has an /etc of its own.
func TestLaunchManagedSettings(t *testing.T) {
	const dir = "/etc/claude-code"
	if err := os.WriteFile(filepath.Join(dir, "managed-settings.json"), []byte("{}"), 0o644); err != nil {
		t.Skipf("this run has no /etc of its own, since it wasn't started by root: %v", err)
	}
	t.Cleanup(func() { must(t, os.Remove(filepath.Join(dir, "managed-settings.json"))) })
	for text, words := range map[string][]string{
		`{"disableAllHooks":true}`:                  {"managed-settings.json has disableAllHooks = true", "administrator"},
		`{"allowManagedHooksOnly":true}`:            {"managed-settings.json has allowManagedHooksOnly = true"},
		`{"disableAllHooks":true`:                   {"managed-settings.json", "JSON"},
		`{"hooks":{"PreToolUse":[{"matcher":"*"}]}`: {"managed-settings.json"},
	} {
		t.Run(text, func(t *testing.T) {
			g := newGuarded(t, "")
			g.steps(fakemodel.Use("Bash", g.touch()))
			must(t, os.WriteFile(filepath.Join(dir, "managed-settings.json"), []byte(text), 0o644))
			g.noSession(g.launch(), "wiring_unproved", words...)
		})
	}
}

// TestS2_LaunchDropsSwitches: a variable that silences hooks is dropped and
// said, from the environment and from the user's settings; as an option it is
// refused.
func TestS2_LaunchDropsSwitches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, env, user string }{
		{"environment", "CLAUDE_CODE_SIMPLE=1", ""},
		{"safe mode", "CLAUDE_CODE_SAFE_MODE=1", ""},
		{"prefix", "CLAUDE_CODE_SHELL_PREFIX=/bin/true", ""},
		{"another program", "BUN_BE_BUN=1", ""},
		{"user's settings", "", "CLAUDE_CODE_SIMPLE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			name, _, _ := strings.Cut(c.env, "=")
			closed("claude", "switch, "+c.name, cmp.Or(name, c.user+" in the user's env block")+" keeps hooks from running", byFilter).report(t)
			g := newGuarded(t, "")
			g.steps(fakemodel.Use("Bash", g.touch()))
			if c.env != "" {
				g.Env = append(g.Env, c.env)
			} else {
				name = c.user
				g.write(filepath.Join(g.Home, ".claude/settings.json"), object{"env": object{c.user: "1"}})
			}
			o := g.launch()
			g.ok(o)
			if !strings.Contains(o.Stderr, "dropped from the environment: "+name+"\n") {
				t.Errorf("stderr %q doesn't say that %s was dropped", o.Stderr, name)
			}
			g.denied()
		})
	}
	closed("claude", "bare option", "--bare runs the client without hooks", "every option of its kind is refused, in every spelling").report(t)
	g := newGuarded(t, "")
	g.steps()
	g.noSession(g.launch("--bare"), "flag_refused", "--bare")
	g.noSession(g.launchAs("--bare"), "flag_refused", "--bare")
}

// TestT2_LaunchSettings: a project's settings aren't loaded, which is said; the
// user's own end the launch when the client would skip them.
func TestT2_LaunchSettings(t *testing.T) {
	t.Parallel()
	bad := `{"permissions":{"deny":["Read"]},"hooks":{"PreToolUse":[{"matcher":{"type":"always"},"hooks":[]}]}}`
	t.Run("project", func(t *testing.T) {
		g := newGuarded(t, "")
		g.steps(fakemodel.Use("Bash", g.touch()))
		g.write(filepath.Join(g.Project, ".claude/settings.json"), bad)
		o := g.launch()
		g.ok(o)
		if !strings.Contains(o.Stderr, "project settings are not loaded: .claude/settings.json\n") {
			t.Errorf("stderr %q", o.Stderr)
		}
		if g.marked() {
			t.Error("the call ran")
		}
	})
	t.Run("user", func(t *testing.T) {
		g := newGuarded(t, "")
		g.steps()
		g.write(filepath.Join(g.Home, ".claude/settings.json"), bad)
		g.noSession(g.launch(), "config_invalid", "settings.json", "at hooks.PreToolUse[0].matcher: want a string")
	})
}
