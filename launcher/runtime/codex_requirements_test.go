package runtime

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"
)

var systemCodex = CodexInstall{Managed: true, Install: Install{Gate: "/usr/bin/guard-gate", Socket: "/run/guard/broker.sock", BrokerUID: 990, Budget: 150 * time.Second}}

// TestRequirements: guard's lines are in effect, what an administrator wrote says
// what it said, and taking guard's lines out gives it back byte for byte.
func TestRequirements(t *testing.T) {
	for name, old := range map[string]string{
		"none":                       "",
		"comment":                    "# ours\n",
		"keys":                       "allowed_sandbox_modes = [\"read-only\"]\n",
		"only, already":              "allow_managed_hooks_only = true\n",
		"features":                   "x = 1\n[features] # ours\nmemories = false\n\n[other]\na = 1\n",
		"features, already":          "[features]\nhooks = true\nunified_exec_tty = false\n",
		"features, in part":          "[features]\nhooks = true\n[z]\n",
		"hooks":                      "[hooks]\nmanaged_dir = \"/opt/h\"\n[[hooks.PreToolUse]]\nmatcher = \"Bash\"\n[[hooks.PreToolUse.hooks]]\ntype = \"command\"\ncommand = \"/opt/h/a\"\n",
		"hooks of another event":     "[[hooks.Stop]]\nhooks = [{type=\"command\",command=\"/x\"}]\n",
		"a table at the end":         "[a]\nb = 1\n",
		"no line's end at the end":   "[a]\nb = 1",
		"a text that looks like one": "a = \"[features]\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			text, err := systemCodex.Requirements([]byte(old))
			if err != nil {
				t.Fatal(err)
			}
			var is struct {
				Only     bool            `toml:"allow_managed_hooks_only"`
				Features map[string]bool `toml:"features"`
			}
			if err := toml.Unmarshal(text, &is); err != nil || !is.Only || !is.Features["hooks"] || is.Features["unified_exec_tty"] {
				t.Errorf("%v, %+v in\n%s", err, is, text)
			}
			again, err := systemCodex.Requirements(text)
			if err != nil || !bytes.Equal(again, text) {
				t.Errorf("a second time: %v\n%s", err, again)
			}
			rest, err := WithoutRequirements(text)
			want := old
			if want != "" && !strings.HasSuffix(want, "\n") {
				want += "\n"
			}
			if err != nil || string(rest) != want {
				t.Errorf("taken out: %v, %q, want %q", err, rest, want)
			}
		})
	}
}

// TestRequirementsRefused: what would not count, or would change what is there,
// isn't written.
func TestRequirementsRefused(t *testing.T) {
	for name, c := range map[string]struct{ old, word string }{
		"no TOML":                    {"x", "correct it"},
		"other hooks allowed":        {"allow_managed_hooks_only = false\n", "allow_managed_hooks_only"},
		"hooks off":                  {"[features]\nhooks = false\n", "features.hooks = false"},
		"terminals on":               {"[features]\nunified_exec_tty = true\n", "features.unified_exec_tty = true"},
		"features in one line":       {"features = {memories = true}\n", "[features]"},
		"features with dots":         {"features.memories = true\n", "[features]"},
		"hooks in one line":          {"[hooks]\nPreToolUse = [{hooks=[]}]\n", "[[hooks.PreToolUse]]"},
		"hooks as a list at the end": {"hooks = 1\n", ""},
		"features of another type":   {"[features]\nhooks = \"yes\"\n", "correct it"},
		"no end":                     {requirementsBegin + "a = 1\n", "no end"},
	} {
		text, err := systemCodex.Requirements([]byte(c.old))
		if err == nil || !strings.Contains(err.Error(), c.word) || !strings.Contains(err.Error(), CodexRequirements) {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

func FuzzRequirements(f *testing.F) {
	f.Add("[features]\nhooks = true\n")
	f.Add("[hooks]\n[[hooks.PreToolUse]]\n")
	f.Add(requirementsBegin + requirementsEnd + "x = 1")
	f.Fuzz(func(t *testing.T, old string) {
		text, err := systemCodex.Requirements([]byte(old))
		if err != nil {
			return
		}
		rest, err := WithoutRequirements(text)
		if err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		if base, err := WithoutRequirements([]byte(old + "\n")); err != nil || strings.TrimRight(string(rest), "\n") != strings.TrimRight(string(base), "\n") {
			t.Errorf("%q became %q, %v", base, rest, err)
		}
	})
}

// TestRequiredFault: lines that are gone, older or of no effect are told.
func TestRequiredFault(t *testing.T) {
	text, err := systemCodex.Requirements([]byte("# ours\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text string
		word string // empty: there is no fault
	}{
		"as written":    {string(text), ""},
		"none":          {"", "no hooks of guard's"},
		"others' alone": {"# ours\n", "no hooks of guard's"},
		"another gate":  {strings.ReplaceAll(string(text), "/usr/bin/guard-gate", "/bin/true"), "other lines"},
		"hooks off":     {strings.Replace(string(text), "hooks = true", "hooks = false", 1), "other lines"},
		"no end":        {strings.ReplaceAll(string(text), requirementsEnd, ""), "have no end"},
		"switched off":  {string(text) + "[features.x]\n", "correct it"},
	} {
		u := CodexUser{Files: []Managed{{Path: codexManaged, Data: text}, {Path: CodexRequirements, Data: []byte(c.text)}}}
		if got := systemCodex.RequiredFault(u); !strings.Contains(got, c.word) || (c.word == "") != (got == "") {
			t.Errorf("%s: %q, want %q", name, got, c.word)
		}
	}
	if got := systemCodex.RequiredFault(CodexUser{}); got == "" {
		t.Error("without a file there is no fault")
	}
}
