package runtime

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// TestMergeHooks: the gate is put in once, an older entry of guard's is replaced,
// and no other byte changes.
func TestMergeHooks(t *testing.T) {
	in := testInstall
	entry := func(event string) string {
		text, err := marshal("x", in.hooks()[event][0])
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	pre, skill, change := entry("PreToolUse"), entry("PreSkillShellCommand"), entry("ConfigChange")
	all := `"PreToolUse":[` + pre + `],"PreSkillShellCommand":[` + skill + `],"ConfigChange":[` + change + `]`
	back := `"ConfigChange":[` + change + `],"PreSkillShellCommand":[` + skill + `],`
	old := strings.Replace(pre, `"150"`, `"20"`, 1)
	mine := `{"matcher":"Bash","hooks":[{"type":"command","command":"mine"}]}`
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", `{"hooks":{` + `"ConfigChange":[` + change + `],"PreSkillShellCommand":[` + skill + `],"PreToolUse":[` + pre + `]` + "}}\n"},
		{"empty", "{}", `{"hooks":{` + `"ConfigChange":[` + change + `],"PreSkillShellCommand":[` + skill + `],"PreToolUse":[` + pre + `]` + "}}"},
		{"others", "\xef\xbb\xbf{\n\t\"model\" : \"opus\",\r\n \"n\":1.50 }\n\n", "\xef\xbb\xbf{" + `"hooks":{` + `"ConfigChange":[` + change + `],"PreSkillShellCommand":[` + skill + `],"PreToolUse":[` + pre + `]` + "},\n\t\"model\" : \"opus\",\r\n \"n\":1.50 }\n\n"},
		{"there", `{"hooks":{` + all + `}}`, `{"hooks":{` + all + `}}`},
		{"there, written otherwise", `{"hooks": {` + strings.ReplaceAll(all, `,"`, ` , "`) + `}}`, `{"hooks": {` + strings.ReplaceAll(all, `,"`, ` , "`) + `}}`},
		{"beside another's", `{"hooks":{"PreToolUse":[ ` + mine + ` ]}}`, `{"hooks":{` + back + `"PreToolUse":[` + pre + `, ` + mine + ` ]}}`},
		{"an older one", `{"hooks":{"PreToolUse":[` + mine + `, ` + old + ` ]}}`, `{"hooks":{` + back + `"PreToolUse":[` + mine + `, ` + pre + ` ]}}`},
		{"an empty list", `{"hooks":{"PreToolUse":[ ]}}`, `{"hooks":{` + back + `"PreToolUse":[` + pre + ` ]}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := in.MergeHooks("/x", []byte(c.text))
			if err != nil || string(got) != c.want {
				t.Errorf("%v\n%s, want\n%s", err, got, c.want)
			}
			if again, err := in.MergeHooks("/x", got); err != nil || !bytes.Equal(again, got) {
				t.Errorf("once more: %v\n%s", err, again)
			}
		})
	}
	for _, text := range []string{"{", "[]", "null", `{"hooks":[]}`, `{"hooks":{"PreToolUse":{}}}`, `{"hooks":{"PreToolUse":[{"matcher":{}}]}}`, `{"a":1,"a":2}`, "// x\n{}"} {
		if _, err := in.MergeHooks("/x", []byte(text)); err == nil {
			t.Errorf("%s was taken", text)
		} else {
			refusal(t, err, "config_invalid")
		}
	}
}

// FuzzMergeHooks: what comes out is a settings file with the gate in it, which
// needs no second merge, and all that was there stands in it in order.
func FuzzMergeHooks(f *testing.F) {
	f.Add([]byte(`{"model":"x","hooks":{"Stop":[],"PreToolUse":[{"hooks":[{"type":"command","command":"/x/guard-gate","args":["claude"]}]}]}}`))
	f.Add([]byte("\xef\xbb\xbf{ }"))
	f.Fuzz(func(t *testing.T, text []byte) {
		out, err := testInstall.MergeHooks("/x", text)
		if err != nil {
			return
		}
		again, err := testInstall.MergeHooks("/x", out)
		if err != nil || !bytes.Equal(again, out) {
			t.Fatalf("not stable: %v\n%s\n%s", err, out, again)
		}
		file := userFile{path: "/x", data: out}
		if err := file.parse(); err != nil {
			t.Fatal(err)
		}
		var events map[string][]jsontext.Value
		if err := json.Unmarshal(file.top["hooks"], &events); err != nil {
			t.Fatal(err)
		}
		for _, event := range decideEvents {
			if !slices.ContainsFunc(events[event], isGates) {
				t.Fatalf("%s has no gate: %s", event, out)
			}
		}
		if !bytes.Contains(text, []byte("guard-gate")) && !subsequence(text, out) {
			t.Errorf("bytes of %s are lost in %s", text, out)
		}
	})
}

// subsequence reports whether all of a stands in b in order.
func subsequence(a, b []byte) bool {
	for _, c := range b {
		if len(a) > 0 && a[0] == c {
			a = a[1:]
		}
	}
	return len(a) == 0
}
