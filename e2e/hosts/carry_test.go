//go:build hosts

package hosts

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"leaseguard.internal/internal/fakemodel"
)

// carriedSetting is a key of the user's settings that a session has, and the
// marker of it in the first request to the model.
type carriedSetting struct {
	key   string
	value any
	shows func(r *fakemodel.Request) bool
}

func says(text string) func(*fakemodel.Request) bool {
	return func(r *fakemodel.Request) bool { return strings.Contains(string(r.Body), text) }
}

func lacks(text string) func(*fakemodel.Request) bool {
	return func(r *fakemodel.Request) bool { return !says(text)(r) }
}

// carriedSettings are all that show in a request, in sets that go together.
var carriedSettings = [][]carriedSetting{{
	{"model", "haiku", func(r *fakemodel.Request) bool { return strings.Contains(r.Model, "haiku") }},
	{"maxEffortLevel", "low", says(`"effort":"low"`)},
	{"language", "latin", says("Always respond in latin")},
	{"outputStyle", "Explanatory", says("# Output Style: Explanatory")},
	{"attribution", object{"commit": "COMMITS-OF-MINE"}, says("COMMITS-OF-MINE")},
	{"promptCacheTtl", "1h", says(`"ttl":"1h"`)},
	{"disableWorkflows", true, func(r *fakemodel.Request) bool { return !r.Offers("Workflow") }},
	{"disableBundledSkills", true, lacks("update-config")},
	{"permissions", object{"deny": []string{"WebFetch"}, "additionalDirectories": []string{"/usr/share"}}, func(r *fakemodel.Request) bool {
		return says("Additional working directories:")(r) && says("/usr/share")(r) && lacks("WebFetch")(r)
	}},
	{"env", object{"ANTHROPIC_CUSTOM_HEADERS": "X-Mine: yes"}, func(r *fakemodel.Request) bool { return r.Header.Get("X-Mine") == "yes" }},
}, {
	{"effortLevel", "high", says(`"effort":"high"`)},
	{"includeCoAuthoredBy", false, lacks("Co-Authored-By")},
}}

// TestCarriedSettings: each key that docs/hosts.md calls carried shows in the
// request to the model. Without any, none of the markers is there.
func TestCarriedSettings(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "")
	g.steps(fakemodel.Say("plain"), fakemodel.Say("first"), fakemodel.Say("second"))
	g.ok(g.launch())
	plain := g.Model.Requests()[0]
	for i, set := range carriedSettings {
		settings := object{}
		for _, c := range set {
			settings[c.key] = c.value
			if c.shows(plain) {
				t.Errorf("the marker of %s is there without it", c.key)
			}
		}
		g.write(filepath.Join(g.Config, "settings.json"), settings)
		o := g.launch()
		g.ok(o)
		for _, c := range set {
			if !c.shows(g.Model.Requests()[i+1]) {
				t.Errorf("the request shows nothing of %s", c.key)
			}
		}
		if strings.Contains(o.Stderr, "not taken over") {
			t.Errorf("stderr %q", o.Stderr)
		}
	}
}

// TestCarriedSandbox: whoever confines their commands has them confined under
// guard, or is told by the client that they aren't.
func TestCarriedSandbox(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bwrap"); err == nil {
		t.Skip("the marker is the client's complaint that there is no bubblewrap, and here it is")
	}
	g := newGuarded(t, "")
	g.steps(fakemodel.Say("plain"), fakemodel.Say("confined"))
	const complaint = "sandbox is enabled but"
	plain := g.launch()
	g.write(filepath.Join(g.Config, "settings.json"), object{"sandbox": object{"enabled": true}})
	if o := g.launch(); strings.Contains(plain.Stderr, complaint) || !strings.Contains(o.Stderr, complaint) {
		t.Errorf("without it %q, with it %q", plain.Stderr, o.Stderr)
	}
}

// TestCarriedWorld: what else a session has of its user: instructions with what
// they import, agents, servers of three kinds, and the command that prints the
// key. No secret of theirs stands in an argument; no hook or server of an agent
// runs; of a project's servers only the accepted one.
func TestCarriedWorld(t *testing.T) {
	t.Parallel()
	for runtime, as := range claudes {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			carriedWorld(t, as(newGuarded(t, "[checkpoint]\nself = \"none\"\nunlisted = \"allow\"\nno_vm = \"allow\"\n")))
		})
	}
}

func carriedWorld(t *testing.T, g *guarded) {
	var first *fakemodel.Request
	var arguments string
	agent := func(_ context.Context, r *fakemodel.Request) (fakemodel.Turn, error) {
		if !says("AGENTS-PROMPT")(r) || !strings.Contains(r.Model, "haiku") || !r.Offers("Read") || r.Offers("Bash") {
			t.Errorf("the agent runs with model %q, Bash %v, its prompt %v", r.Model, r.Offers("Bash"), says("AGENTS-PROMPT")(r))
		}
		return fakemodel.Turn{Text: "helped"}, nil
	}
	g.script(fakemodel.Script{
		Steps: []fakemodel.Step{
			func(ctx context.Context, r *fakemodel.Request) (fakemodel.Turn, error) {
				first, arguments = r, strings.Join(argv(t, g.sessions()[0].AnchorPID), "\n")
				return g.operator("approve", fakemodel.Use("Agent", `{"description":"help","prompt":"HELPER: go","subagent_type":"latinist","run_in_background":false}`))(ctx, r)
			},
			fakemodel.Use("mcp__mine__act", `{"x":1}`),
		},
		Others: []fakemodel.Conversation{{Name: "helper", Match: fakemodel.Prompted("HELPER:"), Steps: []fakemodel.Step{agent}}},
	})
	g.userWorld()
	o := g.launch()
	g.ok(o)
	if got := g.results(); len(got) != 2 || !strings.HasPrefix(got[0], "ok: ") || !strings.Contains(got[0], "helped") || !strings.HasPrefix(got[1], "ok: ran act") {
		t.Errorf("the model was told %q", got)
	}
	for _, marker := range []string{"MEMORY-MARK", "IMPORT-MARK", "RULES-MARK", "latinist: AGENTS-DESCRIPTION"} {
		if !says(marker)(first) {
			t.Errorf("the request doesn't say %q", marker)
		}
	}
	for tool, want := range map[string]bool{"mcp__mine__act": true, "mcp__vs__act": true, "mcp__local__act": true, "mcp__other__act": false} {
		if got := first.Offers(tool) || says(tool)(first); got != want {
			t.Errorf("%s offered: %v", tool, got)
		}
	}
	for _, secret := range []string{g.Model.Key(), "s3cret", "MEMORY-MARK"} {
		if strings.Contains(arguments, secret) {
			t.Errorf("%q stands in the client's arguments", secret)
		}
	}
	if g.marked() {
		t.Error("a hook or server of the agent's ran")
	}
	for _, said := range []string{`agents/a.md": hooks, mcpServers`, "settings.json\": hooks\n", "project settings are not loaded: .claude/settings.json, .mcp.json"} {
		if !strings.Contains(o.Stderr, said) {
			t.Errorf("stderr %q doesn't say %q", o.Stderr, said)
		}
	}
}

// userWorld plants what a user may have, beside what a project would like.
func (g *guarded) userWorld() {
	g.t.Helper()
	g.Env = append(g.Env, "ANTHROPIC_API_KEY=") // the last counts
	touch := object{"hooks": []any{object{"type": "command", "command": "touch " + g.Marker}}}
	g.write(filepath.Join(g.Config, "settings.json"), object{
		"apiKeyHelper": "printf %s " + g.Model.Key(), "enabledMcpjsonServers": []string{"mine"}, "hooks": object{"SessionStart": []any{touch}},
	})
	g.write(filepath.Join(g.Config, "CLAUDE.md"), "MEMORY-MARK\n@more.md\n")
	g.write(filepath.Join(g.Config, "more.md"), "IMPORT-MARK\n")
	g.write(filepath.Join(g.Config, "rules/a.md"), "RULES-MARK\n")
	g.write(filepath.Join(g.Config, "agents/a.md"), "---\nname: latinist\ndescription: AGENTS-DESCRIPTION\ntools: Read\nmodel: haiku\nhooks:\n  SubagentStart:\n    - hooks:\n        - type: command\n          command: touch "+g.Marker+
		"\nmcpServers:\n  - planted:\n      type: stdio\n      command: /bin/sh\n      args: [\"-c\", \"touch "+g.Marker+"\"]\n---\nAGENTS-PROMPT HELPER\n")
	server := func() object {
		s := g.stub("act")
		s["env"] = object{"KEY": "s3cret", "LD_PRELOAD": "/nonexistent.so"}
		s["alwaysLoad"] = true
		return s
	}
	project, err := filepath.EvalSymlinks(g.Project)
	must(g.t, err)
	g.write(g.State, object{
		"hasCompletedOnboarding": true, "mcpServers": object{"vs": server()},
		"projects": object{project: object{"hasTrustDialogAccepted": true, "mcpServers": object{"local": server()}}},
	})
	g.write(filepath.Join(g.Project, ".mcp.json"), object{"mcpServers": object{"mine": server(), "other": server()}})
	g.write(filepath.Join(g.Project, ".claude/settings.json"), object{"enabledMcpjsonServers": []string{"other"}, "enableAllProjectMcpServers": true})
}

// TestCarriedPromptFile: a file that the arguments give takes the place of the
// user's instructions, which is said; a text goes behind them.
func TestCarriedPromptFile(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "")
	g.steps(fakemodel.Say("text"), fakemodel.Say("file"))
	g.write(filepath.Join(g.Config, "CLAUDE.md"), "MEMORY-MARK\n")
	file := filepath.Join(g.Dir, "prompt")
	must(t, os.WriteFile(file, []byte("FILE-MARK"), 0o600))
	g.ok(g.launch("--append-system-prompt", "TEXT-MARK"))
	o := g.launch("--append-system-prompt-file", file)
	g.ok(o)
	all := g.Model.Requests()
	if !says("MEMORY-MARK")(all[0]) || !says("TEXT-MARK")(all[0]) || !says("FILE-MARK")(all[1]) || says("MEMORY-MARK")(all[1]) {
		t.Error("the requests don't say what they should")
	}
	if !strings.Contains(o.Stderr, "not taken over: the user's instructions, since --append-system-prompt-file takes their place") {
		t.Errorf("stderr %q", o.Stderr)
	}
}

// TestCarriedTooLong: settings that the kernel doesn't take end the launch with
// the name of the largest key.
func TestCarriedTooLong(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "")
	g.steps()
	rules := []string{}
	for range 20_000 {
		rules = append(rules, "Read(a)")
	}
	g.write(filepath.Join(g.Config, "settings.json"), object{"permissions": object{"deny": rules, "allow": []string{"Bash"}}})
	g.noSession(g.launch(), "config_invalid", "the largest key is permissions.deny", "131071")
}
