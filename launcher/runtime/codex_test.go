package runtime

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"

	"leaseguard.internal/internal/verdict"
)

// TestCodexTrust holds the hash to one that the client itself has given.
func TestCodexTrust(t *testing.T) {
	const want = "sha256:15d09c9960d229a122b9ff3b0626467dd40383e4366c6ae7d2e94ca64d9fb005"
	if got := CodexTrust("PreToolUse", `/bin/true é "q" <x>`, 180); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTOMLText(t *testing.T) {
	for s, want := range map[string]string{
		"":             `""`,
		`a "b" \c`:     `"a \"b\" \\c"`,
		"two\nlines\t": `"two\nlines\t"`,
		"é<>&'":        `"é<>&'"`,
		"\x7f\x01":     `"\u007f\u0001"`,
		"\xff":         "\"\uFFFD\"",
	} {
		if got := tomlText(s); got != want {
			t.Errorf("%q is written %s, want %s", s, got, want)
		}
	}
}

// codexHome makes a user's directory with the given files.
func codexHome(t *testing.T, files map[string]string) (func(string) string, string) {
	t.Helper()
	home := t.TempDir()
	for name, text := range files {
		path := filepath.Join(home, ".codex", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func(name string) string { return map[string]string{"HOME": home}[name] }, filepath.Join(home, ".codex")
}

// TestLoadCodex: what the files would bring into a session is found, wherever they
// say it, and taken back by name.
func TestLoadCodex(t *testing.T) {
	env, dir := codexHome(t, map[string]string{
		"config.toml": `model = "m"
[projects."/a b"]
trust_level = "trusted"
[projects."/c"]
trust_level = "untrusted"
[mcp_servers.x]
command = "y"
[plugins."p@q"]
enabled = true
[hooks.state."/elsewhere/hooks.json:stop:0:0"]
trusted_hash = "sha256:0"
[hooks.state."/<session-flags>/config.toml:pre_tool_use:0:0"]
enabled = false
[[hooks.PreToolUse]]
matcher = "["
[[hooks.PreToolUse.hooks]]
type = "command"
command = "one"
[[hooks.PreToolUse.hooks]]
type = "prompt"
[[hooks.PreToolUse]]
hooks = [{type = "command", command = "two"}]
`,
		"work.config.toml":  "[projects.\"/d\"]\ntrust_level = \"trusted\"\n[hooks]\nStop = [{hooks=[{}]}]\n",
		"other.config.toml": "[projects.\"/e\"]\ntrust_level = \"trusted\"\n",
		"hooks.json":        `{"hooks":{"SessionStart":[{"hooks":[{"type":"command"}]}]}}`,
	})
	u, err := LoadCodex(env, []string{"work"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	hooks := []string{
		"/elsewhere/hooks.json:stop:0:0",
		dir + "/config.toml:pre_tool_use:0:0", dir + "/config.toml:pre_tool_use:0:1", dir + "/config.toml:pre_tool_use:1:0",
		dir + "/hooks.json:session_start:0:0", dir + "/work.config.toml:stop:0:0",
	}
	slices.Sort(hooks)
	if !slices.Equal(u.Trusted, []string{"/a b", "/d"}) || !slices.Equal(u.Hooks, hooks) || !slices.Equal(u.Servers, []string{"x"}) || !u.Plugins || len(u.Files) < 3 {
		t.Errorf("got %+v, want hooks %q", u, hooks)
	}
	args, err := CodexInstall{Install: Install{Gate: "/g", Socket: "/s", Budget: time.Second}}.Args(u)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(args, "\n")
	for _, word := range append(hooks, `"/a b"={trust_level="untrusted"}`, `"/d"={trust_level="untrusted"}`, "hooks.PreToolUse=[{", sessionFlags+":pre_tool_use:0:0") {
		if !strings.Contains(all, word) {
			t.Errorf("the arguments don't say %s:\n%s", word, all)
		}
	}
	if got := u.Project("/a b/c"); len(got) != 0 {
		t.Errorf("of a project without files %q isn't loaded", got)
	}
}

// TestT2_CodexMalformed: a file that the client would choke on ends the launch; a
// hooks.json that it would skip brings no hook.
func TestT2_CodexMalformed(t *testing.T) {
	for name, c := range map[string]struct{ file, text, word string }{
		"no TOML":       {"config.toml", "\n[x", "line 2"},
		"another shape": {"config.toml", "projects = 1\n", "line 1"},
		"profile":       {"work.config.toml", "x", "work.config.toml"},
		"too long":      {"config.toml", strings.Repeat("#\n", maxSettings), "more than"},
	} {
		env, _ := codexHome(t, map[string]string{c.file: c.text})
		if _, err := LoadCodex(env, []string{"work"}, nil); err == nil || !strings.Contains(err.Error(), string(verdict.ConfigInvalid)) || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: %v", name, err)
		}
	}
	env, _ := codexHome(t, map[string]string{"hooks.json": "{not json"})
	if u, err := LoadCodex(env, nil, nil); err != nil || len(u.Hooks) != 0 {
		t.Errorf("a broken hooks.json: %+v, %v", u, err)
	}
	if _, err := LoadCodex(func(string) string { return "" }, nil, nil); err == nil {
		t.Error("without HOME the configuration was found")
	}
}

// TestCodexDotenv: the client puts its .env over the environment that guard gave
// it, so nothing may stand there that could answer a hook or lead it elsewhere.
func TestCodexDotenv(t *testing.T) {
	pass := []string{"MY_REGION", "PATH"}
	for text, word := range map[string]string{ // of the error; empty: there is none
		"# PATH=/x\n\n  OPENAI_API_KEY=k\nexport AZURE_OPENAI_API_KEY='k'\r\nhttps_proxy=p\nMY_REGION=eu\n": "",
		"OPENAI_API_KEY=k\nPATH=/x:/usr/bin": "line 2 sets PATH",
		" export\tBASH_ENV = /x":             "line 1 sets BASH_ENV",
		"LD_PRELOAD_TOKEN=/x.so":             "line 1 sets LD_PRELOAD_TOKEN",
		"SHELL=/x":                           "line 1 sets SHELL",
		"GIT_SSH_COMMAND=/x":                 "line 1 sets GIT_SSH_COMMAND",
		"NOBODY_KNOWS=1":                     "add it to session.env_pass",
		"X_TOKEN='a\nHOME=/x\nb'":            "line 2 sets HOME",
		"X_TOKEN='a\nb'":                     "line 2 is no NAME=value",
		"\ufeffPATH=/x":                      "line 1 is no NAME=value",
		"PATH":                               "line 1 is no NAME=value",
	} {
		env, dir := codexHome(t, map[string]string{".env": text})
		u, err := LoadCodex(env, nil, pass)
		if word == "" {
			if digested := slices.ContainsFunc(u.Files, func(f Managed) bool { return f.Path == filepath.Join(dir, ".env") }); err != nil || !digested {
				t.Errorf("%q: %v; in the proof's digest: %v", text, err, digested)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), string(verdict.ConfigInvalid)) || !strings.Contains(err.Error(), word) {
			t.Errorf("%q: %v, want %q", text, err, word)
		}
	}
}

// TestCodexTooLong: what the kernel would not take in one argument is refused,
// with the key.
func TestCodexTooLong(t *testing.T) {
	u := CodexUser{Home: "/h"}
	for range 3000 {
		u.Trusted = append(u.Trusted, "/"+strings.Repeat("x", 50))
	}
	if _, err := (CodexInstall{}).Args(u); err == nil || !strings.Contains(err.Error(), "projects") {
		t.Errorf("got %v", err)
	}
}

func TestCheckCodexVersion(t *testing.T) {
	for line, want := range map[string]string{ // a word of the error; warn: a warning; none: neither
		"codex-cli 0.171.0\n":         "none",
		"codex-cli 0.171.0":           "none",
		"codex-cli 0.172.0-alpha.1\n": "warn",
		"codex-cli 1.0.0":             "warn",
		"codex-cli 0.170.9":           string(verdict.ClientTooOld),
		"codex 0.171.0":               string(verdict.WiringUnproved),
		"":                            string(verdict.WiringUnproved),
		"codex-cli 0.171.0\nx":        string(verdict.WiringUnproved),
	} {
		warning, err := CheckCodexVersion("/c", line)
		switch {
		case want == "none" && (warning != "" || err != nil), want == "warn" && (warning == "" || err != nil):
			t.Errorf("%q: %q, %v", line, warning, err)
		case want != "none" && want != "warn" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %s", line, err, want)
		}
	}
	for header, want := range map[string]string{
		"codex_exec/0.171.0 (Debian 12; x86_64) unknown": "codex-cli 0.171.0", "codex_cli_rs/0.2.0-alpha.1 (x)": "codex-cli 0.2.0-alpha.1",
		"codex/": "", "curl/1.0 ": "", "codex_exec/0.171.0": "",
	} {
		if got := CodexAgentVersion(header); got != want {
			t.Errorf("%q says %q, want %q", header, got, want)
		}
	}
}

// TestL1_CodexShim: npm's script is refused with the path of the program behind
// it, in both places where npm puts that.
func TestL1_CodexShim(t *testing.T) {
	for _, place := range []string{"node_modules/@openai/codex/node_modules", "node_modules"} {
		dir := t.TempDir()
		native := filepath.Join(dir, "lib", place, "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex")
		shim := filepath.Join(dir, "lib/node_modules/@openai/codex/bin/codex.js")
		for path, text := range map[string]string{native: "\x7fELF", shim: "#!/usr/bin/env node\n"} {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o755); err != nil { // #nosec G306 -- programs of a test
				t.Fatal(err)
			}
		}
		bin := filepath.Join(dir, "bin")
		if err := os.Mkdir(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(shim, filepath.Join(bin, "codex")); err != nil {
			t.Fatal(err)
		}
		if _, err := Find(Search{Program: CodexProgram, Path: bin}); err == nil || !strings.Contains(err.Error(), "guard launch codex --client "+native) {
			t.Errorf("%s: %v", place, err)
		}
		c, err := Find(Search{Program: CodexProgram, Path: bin, File: native})
		if err != nil || c.Path != native {
			t.Fatalf("%s: %v", place, err)
		}
		c.Close()
	}
}

// TestCodexArguments: each of guard's arguments is one piece that the client reads
// as one key, and what it can't have in a session is off in every one.
func TestCodexArguments(t *testing.T) {
	in := CodexInstall{Install: Install{Gate: "/g", Socket: "/s", Budget: time.Second, Server: "guard_1", ServerEnv: []string{"HOME=/h"}}, ReadOnly: true}
	args, err := in.Args(CodexUser{})
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{
		"--no-daemon", "--config=features.daemon_auto_start=false", "--config=features.hooks=true", "--config=features.unified_exec_tty=false", "--config=features.plugins=false",
		"--config=features.image_generation=false", "--config=features.shell_snapshot=false", "--config=features.shell_snapshot_v2=false",
		"--config=features.skill_mcp_dependency_install=false", `--config=tui.resume_cwd="current"`, "--config=notify=[]", `--config=sandbox_mode="read-only"`,
	} {
		if !slices.Contains(args, word) {
			t.Errorf("%s is not among %q", word, args)
		}
	}
	keys := map[string]bool{}
	for _, a := range args[1:] {
		setting, ok := strings.CutPrefix(a, "--config=")
		key, value, _ := strings.Cut(setting, "=")
		if !ok || keys[key] || value == "" {
			t.Errorf("%s: given twice, or no setting", a)
		}
		keys[key] = true
		var read map[string]any
		if err := toml.Unmarshal([]byte("x = "+value), &read); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
	managed, err := CodexInstall{Managed: true}.Args(CodexUser{Hooks: []string{"/h/hooks.json:stop:0:0"}})
	if all := strings.Join(managed, "\n"); err != nil || strings.Contains(all, "hooks.PreToolUse") || !strings.Contains(all, `"/h/hooks.json:stop:0:0"={enabled=false}`) {
		t.Errorf("beside an administrator's hooks: %v\n%s", err, all)
	}
	proof, err := CodexInstall{}.ProofArgs(CodexUser{Servers: []string{"mine"}}, "http://127.0.0.1:1")
	if all := strings.Join(proof, "\n"); err != nil || !strings.Contains(all, `"mine"={enabled=false}`) || !strings.Contains(all, `base_url="http://127.0.0.1:1/v1"`) || !slices.Contains(proof, "--ephemeral") {
		t.Errorf("the proof: %v\n%s", err, all)
	}
}
