package runtime

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAcceptedServers: of a project's own servers those run that the user's own
// files accept by name; a yes of the project's counts nothing, a no anywhere does.
func TestAcceptedServers(t *testing.T) {
	const list = `{"mcpServers":{"a":{"command":"/a","env":{"LD_X":"1","K":"v"}},"b":{"command":"/b"}}}`
	for _, c := range []struct {
		name, user, mine, project, local, list string
		want                                   []string
		note                                   bool
	}{
		{name: "nobody", list: list},
		{name: "the project says yes", project: `{"enabledMcpjsonServers":["a"],"enableAllProjectMcpServers":true}`, local: `{"enabledMcpjsonServers":["b"]}`, list: list},
		{name: "all of all projects", user: `{"enableAllProjectMcpServers":true}`, list: list},
		{name: "the user, by name", user: `{"enabledMcpjsonServers":["a","c"]}`, list: list, want: []string{"a"}},
		{name: "the user, for this project", mine: `"enabledMcpjsonServers":["b"]`, list: list, want: []string{"b"}},
		{name: "refused in the project", user: `{"enabledMcpjsonServers":["a","b"]}`, local: `{"disabledMcpjsonServers":["a"]}`, list: list, want: []string{"b"}},
		{name: "refused by the user", user: `{"enabledMcpjsonServers":["a","b"],"disabledMcpjsonServers":["b"]}`, list: list, want: []string{"a"}},
		{name: "no list", user: `{"enabledMcpjsonServers":["a"]}`},
		{name: "a broken list", user: `{"enabledMcpjsonServers":["a"]}`, list: `{"mcpServers":{"a":`, note: true},
		{name: "a broken server", user: `{"enabledMcpjsonServers":["a"]}`, list: `{"mcpServers":{"a":{"command":1}}}`, note: true},
		{name: "another is broken", user: `{"enabledMcpjsonServers":["a"]}`, list: `{"mcpServers":{"a":{"command":"/a"},"b":1}}`, want: []string{"a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := tree(t, map[string]string{"p/x.": ""})
			for name, text := range map[string]string{
				".claude/settings.json": c.user, "p/.claude/settings.json": c.project, "p/.claude/settings.local.json": c.local, "p/.mcp.json": c.list,
				".claude.json": `{"projects":{"` + dir + `/p":{` + c.mine + `}}}`,
			} {
				if text != "" {
					write(t, filepath.Join(dir, name), text)
				}
			}
			u, err := LoadUser(home(dir), nil, filepath.Join(dir, "p"))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for name := range u.Servers {
				got = append(got, name)
			}
			if slices.Sort(got); !slices.Equal(got, c.want) || (len(u.Notes) > 0) != c.note {
				t.Errorf("servers %q with notes %q, want %q", got, u.Notes, c.want)
			}
			if strings.Contains(string(u.Servers["a"]), "LD_X") {
				t.Errorf("the server's variables are not filtered: %s", u.Servers["a"])
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestMemory: the user's instructions with what they import, each file once.
func TestMemory(t *testing.T) {
	dir := tree(t, map[string]string{
		".claude/CLAUDE.md.":    "MAIN\n@more.md\n- @~/home.md\n@/nowhere/none.md\nmail@more2.md and @more2.md\n```\n@code.md\n```\n",
		".claude/more.md.":      "MORE\n@CLAUDE.md\n@deep1.md\n",
		".claude/deep1.md.":     "DEEP1\n@deep2.md\n",
		".claude/deep2.md.":     "DEEP2\n@deep3.md\n",
		".claude/deep3.md.":     "DEEP3\n@deep4.md\n",
		".claude/deep4.md.":     "DEEP4\n@deep5.md\n",
		".claude/deep5.md.":     "DEEP5\n",
		".claude/more2.md.":     "NOT2\n",
		".claude/code.md.":      "NOTCODE\n",
		".claude/rules/a.md.":   "RULE\n",
		".claude/rules/b/c.md.": "---\npaths: [\"src/**\"]\n---\nNOTALWAYS\n",
		"home.md.":              "HOME\n",
	})
	u, err := LoadUser(home(dir), nil, "/p")
	if err != nil {
		t.Fatal(err)
	}
	text := string(u.Memory)
	for _, want := range []string{"MAIN", "MORE", "HOME", "RULE", "DEEP4", dir + "/.claude/more.md"} {
		if strings.Count(text, want) == 0 || strings.Count(text, want+"\n") > 1 {
			t.Errorf("%q stands %d times in\n%s", want, strings.Count(text, want), text)
		}
	}
	for _, no := range []string{"NOT2", "NOTCODE", "NOTALWAYS", "DEEP5\n"} {
		if strings.Contains(text, no) {
			t.Errorf("%q stands in\n%s", no, text)
		}
	}
	if len(u.Notes) != 1 || !strings.Contains(u.Notes[0], "rules/b/c.md") {
		t.Errorf("notes %q", u.Notes)
	}
}

// TestLongImport: what is too long to be imported is left out.
func TestLongImport(t *testing.T) {
	dir := tree(t, map[string]string{".claude/CLAUDE.md.": "@long.md\nSTAYS\n", ".claude/long.md.": string(make1M())})
	if u, err := LoadUser(home(dir), nil, "/p"); err != nil || !strings.Contains(string(u.Memory), "STAYS") || len(u.Memory) > 200 {
		t.Errorf("a long import: %d bytes, %v", len(u.Memory), err)
	}
}

// TestAgents: the user's agents without what could run a program.
func TestAgents(t *testing.T) {
	dir := tree(t, map[string]string{
		".claude/agents": "-> ../dots/agents", // as people keep them
		"dots/agents/a.md.": "---\nname: latin\ndescription: >\n  Speaks\n  Latin\ntools: Read, Bash(git:*, ls)\nmodel: haiku\neffort: low\ncolor: red\n" +
			"hooks:\n  PreToolUse:\n    - matcher: \"*\"\nmcpServers:\n  - x:\n      command: /evil\npermissionMode: bypassPermissions\n---\n\nSay it.\n",
		"dots/agents/sub/b.md.": "---\nname: 'it''s'\ndescription: \"a \\\"b\\\" # c\" \ndisallowedTools:\n  - Bash\n  - \"Write\"\n---\nB\n",
		"dots/agents/c.md.":     "---\nname: bare\ndescription: none # of it\ntools: []\n---\nC",
		"dots/agents/d.md.":     "---\ndescription: no name\n---\nD",
		"dots/agents/e.md.":     "---\nname: &x anchor\ndescription: e\n---\nE",
		"dots/agents/f.md.":     "---\nname: f\ndescription: \xff\n---\nF",
		"dots/agents/g.txt.":    "---\nname: g\ndescription: g\n---\nG",
	})
	u, err := LoadUser(home(dir), nil, "/p")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"latin": `{"description":"Speaks Latin","prompt":"Say it.","tools":["Read","Bash(git:*, ls)"],"model":"haiku","effort":"low"}`,
		"it's":  `{"description":"a \"b\" # c","prompt":"B","disallowedTools":["Bash","Write"]}`,
		"bare":  `{"description":"none","prompt":"C","tools":[]}`,
	}
	if len(u.Agents) != len(want) {
		t.Errorf("agents %s", u.Agents)
	}
	for name, text := range want {
		if string(u.Agents[name]) != text {
			t.Errorf("%s is %s, want %s", name, u.Agents[name], text)
		}
	}
	notes := strings.Join(u.Notes, "\n")
	for _, part := range []string{"a.md\": hooks, mcpServers, permissionMode", "d.md\" is not taken over", "e.md\" is not", "f.md\" is not"} {
		if !strings.Contains(notes, part) {
			t.Errorf("notes lack %q:\n%s", part, notes)
		}
	}
	arg, err := u.agentsArg("/x")
	if err != nil || !strings.HasPrefix(arg, "--agents={") || strings.Contains(arg, "evil") {
		t.Errorf("argument %q, %v", arg, err)
	}
}

// FuzzFrontMatter: what is read of a head is there, and no head makes another
// outcome than fields, or an error.
func FuzzFrontMatter(f *testing.F) {
	f.Add([]byte("---\nname: a\ntools:\n  - b\n  - \"c\"\nd: |\n  e\n  f\n---\nbody"))
	f.Add([]byte("---\na: [b, 'c']\nhooks:\n  x: y\n---\n"))
	f.Add([]byte("---\r\na: b\r\n---\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		fields, body, err := frontMatter(text)
		if err != nil {
			return
		}
		if !strings.HasSuffix(string(text), string(body)) {
			t.Errorf("the body %q is no end of %q", body, text)
		}
		for key, v := range fields {
			if !isKey(key) || v.nested && (v.text != "" || v.list != nil) || strings.Contains(v.text, "\n---\n") {
				t.Errorf("key %q is %+v", key, v)
			}
		}
	})
}
