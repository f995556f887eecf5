package runtime

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// home answers for the environment of a user whose files are below dir.
func home(dir string) func(string) string {
	return func(name string) string { return map[string]string{"HOME": dir}[name] }
}

func TestLoadUser(t *testing.T) {
	dir := tree(t, map[string]string{
		".claude/settings.json.": "\xef\xbb\xbf" + `{"$schema":"x","model":"opus","language":"latin","apiKeyHelper":"pass x","permissions":{"allow":["Bash(ls *)"],"deny":["WebFetch"],"new":1},
			"env":{"B":"2","A":1,"T":true,"LD_PRELOAD":"/x","HOME":"/other","CLAUDE_CONFIG_DIR":"/other"},"skipDangerousModePermissionPrompt":true,
			"hooks":{"Stop":[{"hooks":[{"type":"command","command":"x","timeout":1.5}]}]},"statusLine":{"type":"command"},"neverHeardOf":[{}]}`,
		".claude.json.": `{"numStartups":3,"mcpServers":{"vs":{"command":"/s","args":["a"],"env":{"K":"v","LD_PRELOAD":"/x","CLAUDE_CODE_SIMPLE":"1"}},"web":{"type":"http","url":"https://x","headers":{"A":"b"}}},
			"projects":{"/p":{"mcpServers":{"mine":{"command":"/m","env":{"ENV":"x"}}}},"/q":{"mcpServers":{"other":{"command":"/o"}}}}}`,
	})
	u, err := LoadUser(home(dir), nil, "/p")
	if err != nil {
		t.Fatal(err)
	}
	if string(u.More["model"]) != `"opus"` || string(u.More["language"]) != `"latin"` || u.KeyHelper != "pass x" || string(u.Permissions["deny"]) != `["WebFetch"]` || string(u.Permissions["new"]) != "1" || string(u.More["skipDangerousModePermissionPrompt"]) != "true" {
		t.Errorf("took over permissions %s, more %s, helper %s", u.Permissions, u.More, u.KeyHelper)
	}
	if want := []string{"A=1", "B=2", "LD_PRELOAD=/x", "T=true"}; !slices.Equal(u.Env, want) {
		t.Errorf("env %q, want %q", u.Env, want)
	}
	if want := []string{"hooks", "neverHeardOf", "statusLine"}; !slices.Equal(u.Left, want) {
		t.Errorf("left out %q, want %q", u.Left, want)
	}
	if len(u.Servers) != 3 || string(u.Servers["mine"]) != `{"command":"/m","env":{}}` || string(u.Servers["vs"]) != `{"args":["a"],"command":"/s","env":{"K":"v"}}` {
		t.Errorf("servers %s", u.Servers)
	}
	if want := []string{"CLAUDE_CODE_SIMPLE", "CLAUDE_CONFIG_DIR", "ENV", "HOME", "LD_PRELOAD"}; !slices.Equal(u.Dropped, want) {
		t.Errorf("dropped %q, want %q", u.Dropped, want)
	}
}

// TestConsent: a user who has accepted the mode without prompts isn't asked at
// each launch; a setting that says no isn't overruled.
func TestConsent(t *testing.T) {
	for _, c := range []struct{ settings, state, want string }{
		{`{}`, `{"bypassPermissionsModeAccepted":true}`, "true"},
		{`{}`, `{"bypassPermissionsModeAccepted":false}`, ""},
		{`{}`, `{}`, ""},
		{`{"skipDangerousModePermissionPrompt":false}`, `{"bypassPermissionsModeAccepted":true}`, "false"},
	} {
		dir := tree(t, map[string]string{".claude/settings.json.": c.settings, ".claude.json.": c.state})
		u, err := LoadUser(home(dir), nil, "/p")
		if err != nil || string(u.More[consent]) != c.want {
			t.Errorf("settings %s, state %s: %s, %v", c.settings, c.state, u.More[consent], err)
		}
	}
}

func TestLoadUserPlaces(t *testing.T) {
	dir := tree(t, map[string]string{
		"home/.claude/settings.json.": `{"model":"home"}`, "home/.claude.json.": `{"mcpServers":{"home":{"command":"x"}}}`,
		"cfg/settings.json.": `{"model":"cfg"}`, "cfg/.claude.json.": `{"mcpServers":{"cfg":{"command":"x"}}}`,
		"old/.config.json.": `{"mcpServers":{"old":{"command":"x"}}}`, "old/.claude.json.": `{"mcpServers":{"new":{"command":"x"}}}`,
		"linked/settings.json": "-> ../cfg/settings.json",
	})
	for _, c := range []struct{ config, model, server string }{
		{"", `"home"`, "home"}, {"cfg", `"cfg"`, "cfg"}, {"old", "", "old"}, {"linked", `"cfg"`, ""}, {"nowhere", "", ""},
	} {
		t.Run(c.config, func(t *testing.T) {
			env := map[string]string{"HOME": filepath.Join(dir, "home")}
			if c.config != "" {
				env["CLAUDE_CONFIG_DIR"] = filepath.Join(dir, c.config)
			}
			u, err := LoadUser(func(name string) string { return env[name] }, nil, "/p")
			if err != nil || string(u.More["model"]) != c.model {
				t.Errorf("model %s, %v", u.More["model"], err)
			}
			if _, ok := u.Servers[c.server]; ok != (c.server != "") || len(u.Servers) > 1 {
				t.Errorf("servers %s", u.Servers)
			}
		})
	}
	_, err := LoadUser(func(string) string { return "relative" }, nil, "/p")
	refusal(t, err, "config_invalid")
}

// TestT2_MalformedUserSettings: what the client would skip, in whole or in part,
// ends the launch with the place in the file.
func TestT2_MalformedUserSettings(t *testing.T) {
	for _, c := range []struct{ name, settings, state, at string }{
		{"no JSON", `{"model":}`, "", "line 1"},
		{"trailing comma", "{\n\"model\":\"x\",\n}", "", "line 2"},
		{"comment", "{} // x", "", "no JSON"},
		{"empty", " ", "", "no JSON"},
		{"a list", `[]`, "", "no JSON object"},
		{"null", `null`, "", "no JSON object"},
		{"two", `{}{}`, "", "no JSON"},
		{"key twice", `{"model":"a","model":"b"}`, "", "at model"},
		{"deeper key twice", `{"permissions":{"deny":[],"deny":["x"]}}`, "", "at permissions.deny"},
		{"model", `{"model":1}`, "", "at model: want a string"},
		{"permissions", `{"permissions":[]}`, "", "at permissions: want an object"},
		{"a rule", `{"permissions":{"deny":["a",{}]}}`, "", "at permissions.deny[1]: want a string"},
		{"env", `{"env":{"A":{}}}`, "", "at env.A: want a string"},
		{"env's name", `{"env":{"A=B":"x"}}`, "", "at env.A=B"},
		{"env's NUL", `{"env":{"A":"x\u0000y"}}`, "", "at env.A: it holds a NUL"},
		{"matcher", `{"hooks":{"PreToolUse":[{"matcher":{"type":"always"},"hooks":[]}]}}`, "", "at hooks.PreToolUse[0].matcher: want a string"},
		{"event", `{"hooks":{"PreToolUse":{}}}`, "", "at hooks.PreToolUse: want a list"},
		{"second hook", `{"hooks":{"Stop":[{"hooks":[{"type":"command"},{"command":"x"}]}]}}`, "", "at hooks.Stop[0].hooks[1]: want the key type"},
		{"timeout", `{"hooks":{"Stop":[{"hooks":[{"type":"command","timeout":"5"}]}]}}`, "", "timeout: want a number above 0"},
		{"timeout 0", `{"hooks":{"Stop":[{"hooks":[{"type":"command","timeout":0}]}]}}`, "", "timeout: want a number above 0"},
		{"no hooks", `{"hooks":{"Stop":[{}]}}`, "", "at hooks.Stop[0]: want the key hooks"},
		{"switch", `{"disableAllHooks":"yes"}`, "", "at disableAllHooks: want true or false"},
		{"servers", "", `{"mcpServers":[]}`, "at mcpServers: want an object"},
		{"a server", "", `{"mcpServers":{"x":"y"}}`, "at mcpServers.x: want an object"},
		{"server's args", "", `{"mcpServers":{"x":{"command":"y","args":"z"}}}`, "at mcpServers.x.args: want a list"},
		{"state", "", `{`, ".claude.json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string]string{}
			if c.settings != "" {
				files[".claude/settings.json."] = c.settings
			}
			if c.state != "" {
				files[".claude.json."] = c.state
			}
			dir := tree(t, files)
			_, err := LoadUser(home(dir), nil, "/p")
			if reason := refusal(t, err, "config_invalid"); !strings.Contains(reason, c.at) || !strings.Contains(reason, dir) {
				t.Errorf("reason %q doesn't say %q", reason, c.at)
			}
		})
	}
}

// oddities make something else than a file of a person's.
var oddities = map[string]func(path string) error{
	"a pipe":      func(path string) error { return unix.Mkfifo(path, 0o600) },
	"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
	"too long":    func(path string) error { return os.WriteFile(path, make1M(), 0o600) },
}

func TestUserFileOddities(t *testing.T) {
	for name, make := range oddities {
		for _, file := range []string{"settings.json", "CLAUDE.md"} {
			t.Run(file+" "+name, func(t *testing.T) {
				dir := tree(t, map[string]string{".claude/x.": ""})
				if err := make(filepath.Join(dir, ".claude", file)); err != nil {
					t.Fatal(err)
				}
				_, err := LoadUser(home(dir), nil, "/p")
				if reason := refusal(t, err, "config_invalid"); !strings.Contains(reason, file) {
					t.Errorf("reason %q", reason)
				}
			})
		}
	}
}

func make1M() []byte { return []byte(`{"model":"` + strings.Repeat("x", maxSettings) + `"}`) }

func TestProjectFiles(t *testing.T) {
	dir := tree(t, map[string]string{".claude/settings.local.json.": "}", ".mcp.json": "-> nowhere", "CLAUDE.md.": "", ".claude/skills/x/SKILL.md.": "", "sub/x.": ""})
	if got, want := ProjectFiles(dir), []string{".claude/settings.local.json", ".mcp.json", "CLAUDE.md", ".claude/skills"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	if got := ProjectFiles(filepath.Join(dir, "sub")); len(got) != 0 {
		t.Errorf("found %q", got)
	}
}

// FuzzLoadUser: no settings file makes anything else than a refusal or
// arguments that the kernel takes.
func FuzzLoadUser(f *testing.F) {
	f.Add([]byte(`{"model":"opus","permissions":{"allow":["x"]},"env":{"A":"b"}}`))
	f.Add([]byte(`{"hooks":{"Stop":[{"hooks":[{"type":"command"}]}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		file := userFile{path: "/x", data: text}
		if file.parse() != nil {
			return
		}
		u := User{More: object{}}
		if u.takeSettings(&file) != nil {
			return
		}
		args, err := Install{Gate: "/g", Socket: "/s", Server: "guard-1"}.Args(u, Files{})
		if err == nil && (len(args[0]) > MaxArgument || strings.ContainsRune(args[0], 0)) {
			t.Errorf("arguments %.100q", args)
		}
	})
}
