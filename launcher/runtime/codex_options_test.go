package runtime

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCodexCheckArgs: in every spelling, what would silence the gate is refused
// and what wouldn't passes.
func TestCodexCheckArgs(t *testing.T) {
	for _, c := range []struct {
		args    string // words; _ is a space
		refused string // a word of the refusal; empty: it passes
		alone   bool
	}{
		{"", "", false},
		{"exec go", "", true},
		{"e go", "", true},
		{"review --uncommitted", "", true},
		{"resume --last", "", false},
		{"fork 7 go", "", false},
		{"exec --dangerously-bypass-approvals-and-sandbox -m x -i a.png b.png -- go", "", true},
		{"-c model=x exec go", "", true},
		{"-cmodel_reasoning_effort=low", "", false},
		{"-c=model=x", "", false},
		{"--config=sandbox_mode=read-only", "", false},
		{"-p work resume", "", false},
		{"--enable goals", "", false},
		{"--disable hooks", "--disable hooks", false},
		{"--disable=hooks", "--disable hooks", false},
		{"--enable unified_exec_tty", "--enable", false},
		{"-c features.hooks=false", "-c features.hooks=false", false},
		{"-cfeatures={hooks=false}", "features", false},
		{"-c=features.hooks=false", "features", false},
		{"exec -c _features_.hooks=false go", "features", false},
		{"--config hooks.PreToolUse=[]", "hooks", false},
		{"--config=hooks={}", "hooks", false},
		{"-c \"hooks\".x=1", "hooks", false},
		{"-c projects={}", "projects", false},
		{"-c mcp_servers.x.command=y", "mcp_servers", false},
		{"-c shell_environment_policy.set={}", "shell_environment_policy", false},
		{"-c model_provider=x", "", false},
		{"-c tui.notifications=true", "", false},
		{"-c tui.resume_cwd=session", "doesn't watch", false},
		{"-c tui={}", "doesn't watch", false},
		{"-ctui.\"resume_cwd\"=session", "doesn't watch", false},
		{"-c model_providers.x.auth.command=/x", "model_providers", false},
		{"--config=model_providers={}", "model_providers", false},
		{"-c chatgpt_base_url=http://x", "chatgpt_base_url", false},
		{"-c =x", "--config", false},
		{"-c", "", false}, // of which the client complains
		{"exec --dangerously-bypass-hook-trust go", "--dangerously-bypass-hook-trust", false},
		{"exec -m --dangerously-bypass-hook-trust", "--dangerously-bypass-hook-trust", false},
		{"--remote ws://x", "--remote", false},
		{"--remote=ws://x", "--remote", false},
		{"exec --trust go", "--trust", false},
		{"--worktree", "--worktree", false},
		{"-C /elsewhere", "-C", false},
		{"-C/elsewhere", "-C", false},
		{"--cd=/elsewhere", "--cd", false},
		{"app-server", "app-server", false},
		{"-m x app-server", "app-server", false},
		{"mcp-server", "mcp-server", false},
		{"cloud", "cloud", false},
		{"agents", "agents", false},
		{"queue x", "queue", false},
		{"--nosuch", "--nosuch", false},
	} {
		args := strings.Fields(c.args)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "_features_", " features")
		}
		before := slices.Clone(args)
		use, err := CodexTable(false).CheckArgs(args, nil)
		switch {
		case c.refused == "" && (err != nil || use.Unattended != c.alone):
			t.Errorf("%s: %v, unattended %v", c.args, err, use.Unattended)
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), "flag_refused") || c.args != "-c =x" && !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s: %v, want a refusal of %s", c.args, err, c.refused)
		}
		if !slices.Equal(args, before) {
			t.Errorf("%s: the arguments were changed to %q", c.args, args)
		}
	}
	use, err := CodexTable(false).CheckArgs([]string{"-p", "a", "exec", "--profile=b", "-pc"}, nil)
	if err != nil || !slices.Equal(use.Profiles, []string{"a", "b", "c"}) {
		t.Errorf("profiles %q, %v", use.Profiles, err)
	}
	for _, args := range [][]string{{"-s", "workspace-write"}, {"--dangerously-bypass-approvals-and-sandbox"}, {"-c", "sandbox_mode=x"}, {"--approve-for-me"}} {
		if _, err := CodexTable(true).CheckArgs(args, nil); err == nil {
			t.Errorf("%q passes, though guard has chosen the sandbox", args)
		}
	}
}

// TestS2_FilterCodex: what isn't in the list doesn't reach the client.
func TestS2_FilterCodex(t *testing.T) {
	env := []string{
		"PATH=/usr/bin", "HOME=/h", "LC_ALL=C", "XDG_RUNTIME_DIR=/r", "GIT_SSH_COMMAND=x", "https_proxy=p", "OPENAI_API_KEY=k", "SSL_CERT_FILE=f",
		"BASH_ENV=/e", "ENV=/e", "BASH_FUNC_exit%%=() { :; }", "LD_PRELOAD=/l", "CODEX_HOME=/c", "CODEX_X=1", "NODE_OPTIONS=x", "ZDOTDIR=/z", "GUARD_SESSION=1",
		"MINE=1", "PWD=/p", "SHLVL=1", "_=x",
	}
	got := FilterCodex(env, []string{"MINE"})
	if want := append(slices.Clone(env[:8]), "MINE=1"); !slices.Equal(got.Vars, want) {
		t.Errorf("kept %q, want %q", got.Vars, want)
	}
	if want := []string{"BASH_ENV", "BASH_FUNC_exit%%", "CODEX_HOME", "CODEX_X", "ENV", "GUARD_SESSION", "LD_PRELOAD", "NODE_OPTIONS", "ZDOTDIR"}; !slices.Equal(got.Dropped, want) {
		t.Errorf("dropped %q, want %q", got.Dropped, want)
	}
	if want := []string{"GIT_SSH_COMMAND=x", "HOME=/h", "LC_ALL=C", "MINE=1", "PATH=/usr/bin", "SSL_CERT_FILE=f", "XDG_RUNTIME_DIR=/r"}; !slices.Equal(got.ProofCodex(), want) {
		t.Errorf("the proof has %q, want %q", got.ProofCodex(), want)
	}
	if got.Get("HOME") != "/h" || got.Get("BASH_ENV") != "" {
		t.Errorf("HOME %q, BASH_ENV %q", got.Get("HOME"), got.Get("BASH_ENV"))
	}
}

// TestCodexShell: the shell that stands between the client and the gate is one
// that only root can replace, and reads nothing of its user's.
func TestCodexShell(t *testing.T) {
	evil := t.TempDir()
	for _, name := range []string{"bash", "zsh"} {
		if err := os.WriteFile(filepath.Join(evil, name), []byte("#!/bin/sh\n"), 0o777); err != nil { // #nosec G306 -- a program of a test
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(evil, name), 0o777); err != nil { // #nosec G302 -- which anybody may replace
			t.Fatal(err)
		}
	}
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil { // #nosec G302 -- in which anybody may put one
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, login, path string
		refused           bool
	}{
		{"bash", "/bin/bash", open, false},
		{"another, and bash of the system's", "/usr/sbin/nologin", "/usr/bin:/bin", false},
		{"none", "", "/usr/bin:/bin", false},
		{"one that is gone", "/gone/bash", "/usr/bin:/bin", false},
		{"a bash of the user's", filepath.Join(evil, "bash"), "/usr/bin", true},
		{"a zsh of the user's", filepath.Join(evil, "zsh"), "/usr/bin", true},
		{"a bash of the user's in PATH", "/usr/sbin/nologin", evil + ":/usr/bin", true},
		{"a place for one in PATH", "/usr/sbin/nologin", open + ":/usr/bin", true},
		{"a place that can be made in PATH", "/usr/sbin/nologin", open + "/bin:/usr/bin", true},
		{"a place for one later", "/usr/sbin/nologin", "/usr/bin:" + open, false},
		{"a relative place", "/usr/sbin/nologin", "bin:/usr/bin", true},
		{"nowhere", "/usr/sbin/nologin", "/proc/self/fdinfo", true},
	} {
		if _, err := CodexShell(c.login, c.path); (err != nil) != c.refused {
			t.Errorf("%s: %v, want refused %v", c.name, err, c.refused)
		}
	}
	if got := LoginShell("root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000:,,,:/home/ada:/bin/zsh\nbroken:x:7\n", "1000"); got != "/bin/zsh" {
		t.Errorf("the login shell is %q", got)
	}
	if got := LoginShell("broken:x:7\n", "7"); got != "" {
		t.Errorf("of a broken entry the login shell is %q", got)
	}
}

// TestCheckHooks: of what the client lists the gate's hooks have to run, and no
// other of a user's or project's.
func TestCheckHooks(t *testing.T) {
	in := CodexInstall{Install: Install{Gate: "/g", Socket: "/s", Budget: 1}}
	var all []CodexHook
	for _, event := range codexHooked {
		all = append(all, CodexHook{
			Key: "k", Event: strings.ToLower(event[:1]) + event[1:], Command: in.codexEntry(event).Command, Enabled: true, Trust: "trusted",
		})
	}
	for name, c := range map[string]struct {
		change func(all []CodexHook) []CodexHook
		word   string
	}{
		"all":              {func(all []CodexHook) []CodexHook { return all }, ""},
		"one missing":      {func(all []CodexHook) []CodexHook { return all[1:] }, "PreToolUse"},
		"none":             {func([]CodexHook) []CodexHook { return nil }, "PreToolUse"},
		"disabled":         {func(all []CodexHook) []CodexHook { all[0].Enabled = false; return all }, "PreToolUse"},
		"not trusted":      {func(all []CodexHook) []CodexHook { all[0].Trust = "modified"; return all }, "PreToolUse"},
		"another command":  {func(all []CodexHook) []CodexHook { all[0].Command += " "; return all }, "may change"},
		"with a matcher":   {func(all []CodexHook) []CodexHook { all[0].Matcher = "x"; return all }, "may change"},
		"not waited for":   {func(all []CodexHook) []CodexHook { all[0].Async = true; return all }, "may change"},
		"an unknown event": {func(all []CodexHook) []CodexHook { all[0].Event = "x"; return all }, "may change"},
		"one of the user's": {func(all []CodexHook) []CodexHook {
			return append(all, CodexHook{Key: "mine", Enabled: true, Trust: "trusted"})
		}, "mine"},
		"one that is off": {func(all []CodexHook) []CodexHook { return append(all, CodexHook{Key: "mine", Trust: "trusted"}) }, ""},
		"an administrator's": {func(all []CodexHook) []CodexHook {
			return append(all, CodexHook{Key: "theirs", Enabled: true, Managed: true, Trust: "managed"})
		}, ""},
	} {
		cause, next := in.CheckHooks(c.change(slices.Clone(all)))
		if (cause == "") != (c.word == "") || !strings.Contains(cause, c.word) || (cause == "") != (next == "") {
			t.Errorf("%s: %q, %q", name, cause, next)
		}
	}
	in.Managed = true
	if cause, next := in.CheckHooks(all); !strings.Contains(cause, "may change") || next == "" {
		t.Errorf("hooks of the arguments beside an administrator's: %q, %q", cause, next)
	}
}
