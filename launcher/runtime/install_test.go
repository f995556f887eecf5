package runtime

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

var testInstall = Install{
	Gate: "/opt/guard/guard-gate", Guard: "/opt/guard/guard", Socket: "/run/user/7/guard/broker.sock", BrokerUID: 7,
	Budget: 150 * time.Second, ServerEnv: []string{"HOME=/h", "XDG_RUNTIME_DIR=/run/user/7"},
}

func TestArgs(t *testing.T) {
	args, err := testInstall.Args(User{}, Files{})
	if err != nil {
		t.Fatal(err)
	}
	if len(args) != 3 || args[1] != "--setting-sources=" || args[2] != "--strict-mcp-config" {
		t.Fatalf("arguments %q", args)
	}
	var s struct {
		Hooks map[string][]matcher `json:"hooks"`
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(args[0], "--settings=")), &s, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	if len(s.Hooks) != len(decideEvents)+len(observeEvents) {
		t.Errorf("hooks of %d events", len(s.Hooks))
	}
	for event, list := range s.Hooks {
		role, onFailure := "observe", ""
		if slices.Contains(decideEvents, event) {
			role, onFailure = "decide", "block"
		}
		want := hook{"command", "/opt/guard/guard-gate", strings.Fields("claude --socket /run/user/7/guard/broker.sock --broker-uid 7 --role " + role + " --deadline 150"), 180, onFailure}
		if len(list) != 1 || list[0].Matcher != "*" || len(list[0].Hooks) != 1 {
			t.Fatalf("%s has %+v", event, list)
		}
		h := list[0].Hooks[0]
		if h.Type != want.Type || h.Command != want.Command || !slices.Equal(h.Args, want.Args) || h.Timeout != want.Timeout || h.OnFailure != want.OnFailure {
			t.Errorf("%s has %+v, want %+v", event, h, want)
		}
	}
}

// TestPromptsAreAsked: the gate decides on prompts where a policy server judges
// them, on both hosts that have such an event, and nowhere else.
func TestPromptsAreAsked(t *testing.T) {
	for _, asks := range []bool{false, true} {
		in := testInstall
		in.Judged = asks
		entries := in.hooks()["UserPromptSubmit"]
		if (len(entries) == 1) != asks || asks && (entries[0].Hooks[0].OnFailure != "block" || !slices.Contains(entries[0].Hooks[0].Args, "decide")) {
			t.Errorf("Claude, %v: %+v", asks, entries)
		}
		text, err := in.DropInText()
		if err != nil || len(InEffect([]Managed{{Path: DropIn, Data: text}}).Missing(in)) != 0 {
			t.Errorf("Claude's managed settings miss %q, %v", InEffect([]Managed{{Path: DropIn, Data: text}}).Missing(in), err)
		}
		args, err := CodexInstall{Install: in}.Args(CodexUser{})
		joined := strings.Join(args, " ")
		if err != nil || strings.Contains(joined, "--config=hooks.UserPromptSubmit=") != asks || strings.Contains(joined, "user_prompt_submit") != asks {
			t.Errorf("Codex, %v: %q, %v", asks, args, err)
		}
		if e := in.codexEntry("UserPromptSubmit"); !strings.Contains(e.Command, "--role decide") || !strings.Contains(e.Command, " || ") {
			t.Errorf("Codex's entry: %+v", e)
		}
		required, err := CodexInstall{Install: in, Managed: true}.Requirements(nil)
		if err != nil || strings.Contains(string(required), "[[hooks.UserPromptSubmit]]") != asks {
			t.Errorf("Codex's requirements, %v: %s, %v", asks, required, err)
		}
	}
	before, after := testInstall, testInstall
	after.Judged = true
	text, err := before.DropInText()
	if err != nil {
		t.Fatal(err)
	}
	if missing := InEffect([]Managed{{Path: DropIn, Data: text}}).Missing(after); !slices.Equal(missing, []string{"UserPromptSubmit"}) {
		t.Errorf("settings from before the policy server miss %q", missing)
	}
}

// TestF2_HookOutlastsGate: the client waits longer than the gate, whatever the
// budget.
func TestF2_HookOutlastsGate(t *testing.T) {
	for budget, want := range map[time.Duration][2]any{
		time.Second: {"1", int64(31)}, 1500 * time.Millisecond: {"2", int64(32)}, 20 * time.Second: {"20", int64(50)}, 570 * time.Second: {"570", int64(600)},
	} {
		in := testInstall
		in.Budget = budget
		h := in.hook("decide", "block")
		if h.Args[len(h.Args)-1] != want[0] || h.Timeout != want[1] {
			t.Errorf("budget %v: gate %s, client %d", budget, h.Args[len(h.Args)-1], h.Timeout)
		}
	}
}

func TestArgsWithServer(t *testing.T) {
	in := testInstall
	in.Server = "guard-0123456789abcdef"
	u := User{
		Permissions: object{"allow": jsontext.Value(`["Bash"]`), "deny": jsontext.Value(`["WebFetch"]`)},
		KeyHelper:   "pass s3cret",
		More:        object{"model": jsontext.Value(`"opus"`), "skipDangerousModePermissionPrompt": jsontext.Value("true")},
		Servers:     object{"vs": jsontext.Value(`{"command":"/s","env":{"SECRET":"s3cret"}}`)},
	}
	args, err := in.Args(u, Files{Servers: "/run/x/mcp.json", Memory: "/run/x/memory.md", Helper: "/run/x/it's.sh"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"apiKeyHelper":"/bin/sh '/run/x/it'\\''s.sh'"`, `"model":"opus"`, `"permissions":{"allow":["Bash","mcp__guard-0123456789abcdef__recover"],"deny":["WebFetch"]}`, `"skipDangerousModePermissionPrompt":true`} {
		if !strings.Contains(args[0], want) {
			t.Errorf("settings %s lack %s", args[0], want)
		}
	}
	own := `--mcp-config={"mcpServers":{"guard-0123456789abcdef":{"alwaysLoad":true,"args":["mcp","--server","guard-0123456789abcdef"],"command":"/opt/guard/guard","env":{"HOME":"/h","XDG_RUNTIME_DIR":"/run/user/7"},"type":"stdio"}}}`
	if want := []string{"--setting-sources=", "--strict-mcp-config", own, "--mcp-config=/run/x/mcp.json", "--append-system-prompt-file=/run/x/memory.md"}; !slices.Equal(args[1:], want) {
		t.Errorf("arguments %q, want %q", args[1:], want)
	}
	if string(u.Permissions["allow"]) != `["Bash"]` {
		t.Error("the user's permissions were changed in place")
	}
	file, err := u.ServersFile()
	if err != nil || string(file) != `{"mcpServers":{"vs":{"command":"/s","env":{"SECRET":"s3cret"}}}}` {
		t.Errorf("servers' file %s, %v", file, err)
	}
	proof, err := in.ProofArgs(u)
	if err != nil || strings.Contains(strings.Join(proof, " "), "/run/x/") || strings.Contains(proof[0], "apiKeyHelper") || !slices.Contains(proof, "--no-session-persistence") || !slices.Contains(proof, "-p") {
		t.Errorf("proof's arguments %q, %v", proof, err)
	}
}

// TestArgsTooLong: what the kernel would refuse is said in words, with the key
// that makes it so.
func TestArgsTooLong(t *testing.T) {
	long := jsontext.Value(`["` + strings.Repeat("x", 140_000) + `"]`)
	_, err := testInstall.Args(User{SettingsFile: "/h/.claude/settings.json", Permissions: object{"allow": jsontext.Value(`["a"]`), "deny": long}}, Files{})
	if reason := refusal(t, err, "config_invalid"); !strings.Contains(reason, "the largest key is permissions.deny with 140004") {
		t.Errorf("reason %q", reason)
	}
	_, err = testInstall.Args(User{SettingsFile: "/h/.claude/settings.json", More: object{"sandbox": long}}, Files{})
	if reason := refusal(t, err, "config_invalid"); !strings.Contains(reason, "the largest key is sandbox with 140004") {
		t.Errorf("reason %q", reason)
	}
	_, err = testInstall.Args(User{SettingsFile: "/h/.claude/settings.json", Agents: object{"small": jsontext.Value(`{}`), "long": long}}, Files{})
	if reason := refusal(t, err, "config_invalid"); !strings.Contains(reason, `the largest is "long" with 140004`) || !strings.Contains(reason, "/h/.claude/agents") {
		t.Errorf("reason %q", reason)
	}
}

func TestDigest(t *testing.T) {
	base := Proved{
		Client: Identity{Path: "/c", Dev: 1, Ino: 2, Size: 3, Modified: 4, Change: 5}, Gate: Identity{Path: "/g"},
		Args: []string{"a", "b"}, Env: []string{"A=1"}, Managed: []Managed{{Path: "/m", Data: []byte("{}")}}, User: []byte("{}"),
	}
	want := base.Digest()
	if len(want) != 64 || base.Digest() != want {
		t.Fatalf("digest %q", want)
	}
	for name, change := range map[string]func(p *Proved){
		"client's bytes":  func(p *Proved) { p.Client.Change++ },
		"client's inode":  func(p *Proved) { p.Client.Ino++ },
		"gate":            func(p *Proved) { p.Gate.Modified++ },
		"arguments":       func(p *Proved) { p.Args = []string{"a b"} },
		"environment":     func(p *Proved) { p.Env = []string{"A=1", "B=2"} },
		"other bytes":     func(p *Proved) { p.Env = []string{"A=\xff"} },
		"managed":         func(p *Proved) { p.Managed = []Managed{{Path: "/m", Data: []byte(`{"disableAllHooks":true}`)}} },
		"managed missing": func(p *Proved) { p.Managed = nil },
		"managed error":   func(p *Proved) { p.Managed = []Managed{{Path: "/m", Error: "x"}} },
		"user's":          func(p *Proved) { p.User = []byte("{ }") },
	} {
		p := base
		if change(&p); p.Digest() == want {
			t.Errorf("%s: the digest is the same", name)
		}
	}
}
