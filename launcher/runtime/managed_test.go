package runtime

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var managedInstall = Install{Gate: "/usr/bin/guard-gate", Socket: "/run/guard/broker.sock", BrokerUID: 7, Budget: 20 * time.Second}

func dropIn(t testing.TB) string {
	t.Helper()
	text, err := managedInstall.DropInText()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestReadManaged: all files, in the client's order, and what others than root
// may change, which here is everything.
func TestReadManaged(t *testing.T) {
	dir := tree(t, map[string]string{
		"managed-settings.json.": "{}", "managed-settings.d/20-b.json.": `{"allowManagedHooksOnly":true}`, "managed-settings.d/10-a.json.": `{"disableAllHooks":"true"}`,
	})
	if err := os.Chmod(dir+"/managed-settings.d", 0o777); err != nil {
		t.Fatal(err)
	}
	var files []Managed
	for _, m := range readManaged(dir) {
		if m.Data == nil && m.Loose == "" {
			t.Errorf("read %+v", m)
		}
		if m.Data != nil {
			files = append(files, m)
		}
		if (m.Path == dir+"/managed-settings.d" || os.Getuid() != 0) && m.Loose == "" {
			t.Errorf("%s passes for root's alone", m.Path)
		}
	}
	if len(files) != 3 || !strings.HasSuffix(files[1].Path, "10-a.json") || string(files[0].Data) != "{}" {
		t.Fatalf("read %+v", files)
	}
	if got := readManaged(dir + "/none"); len(got) != 0 {
		t.Errorf("read %+v", got)
	}
}

func TestDropInText(t *testing.T) {
	text := dropIn(t)
	if !IsDropIn([]byte(text)) || IsDropIn([]byte(`{"$comment":"mine"}`)) || IsDropIn([]byte("{")) || IsDropIn(nil) {
		t.Errorf("guard doesn't know its own file: %s", text)
	}
	for _, want := range []string{`"allowManagedHooksOnly": true`, `"onFailure": "block"`, `"PreSkillShellCommand"`, `"--broker-uid"`, `"timeout": 50`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if strings.Contains(text, "disableAllHooks") {
		t.Errorf("it decides over another's policy: %s", text)
	}
	e := InEffect([]Managed{{Path: DropIn, Data: []byte(text)}})
	if missing := e.Missing(managedInstall); len(missing) != 0 || e.Only != DropIn || e.Blame() != DropIn+" has allowManagedHooksOnly = true" {
		t.Errorf("missing %q, only %q, blames %q", missing, e.Only, e.Blame())
	}
}

// TestT5_EffectiveHooks: what is in effect is computed from all files, and hooks
// that never load don't count, whatever their file says beside them.
func TestT5_EffectiveHooks(t *testing.T) {
	main, early, late := managedDir+"/managed-settings.json", managedDir+"/managed-settings.d/10-x.json", managedDir+"/managed-settings.d/zzz.json"
	own := dropIn(t)
	change := func(old, new string) string {
		if !strings.Contains(own, old) {
			t.Fatalf("no %q in %s", old, own)
		}
		return strings.ReplaceAll(own, old, new)
	}
	for _, c := range []struct {
		name  string
		files []string // path, text, path, text, …
		held  bool
		only  string // the file that lets no other hooks run
		blame string // part of it
	}{
		{"guard's file", []string{DropIn, own}, true, DropIn, ""},
		{"beside another's hooks", []string{main, `{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"x"}]}]}}`, DropIn, own}, true, DropIn, ""},
		{"hooks of user settings only", []string{main, `{"allowManagedHooksOnly":true}`}, false, main, "managed-settings.json has allowManagedHooksOnly = true"},
		{"hooks that aren't loaded", []string{main, change(`"timeout": 50`, `"timeout": 0`)}, false, main, "has a hook of ConfigChange that the client leaves out: at timeout"},
		{"matcher that meets nothing", []string{main, change(`"matcher": "*"`, `"matcher": "("`)}, false, main, ""},
		{"another gate", []string{DropIn, change("/usr/bin/guard-gate", "/opt/guard-gate")}, false, DropIn, ""},
		{"asynchronous", []string{DropIn, change(`"type": "command"`, `"type": "command", "async": true`)}, false, DropIn, ""},
		{"fails open", []string{DropIn, change(`"onFailure": "block"`, `"onFailure": "continue"`)}, false, DropIn, ""},
		{"switched off later", []string{DropIn, own, late, `{"disableAllHooks":true}`}, false, DropIn, "zzz.json has disableAllHooks = true"},
		{"switched off earlier", []string{main, `{"disableAllHooks":true}`, DropIn, own}, false, DropIn, "managed-settings.json has disableAllHooks = true"},
		{"switched off and on", []string{early, `{"disableAllHooks":true}`, DropIn, own, late, `{"disableAllHooks":false}`}, true, DropIn, ""},
		{"switched off twice in one file", []string{DropIn, own, late, `{"disableAllHooks":false,"disableAllHooks":true}`}, false, DropIn, "disableAllHooks"},
		{"switched off behind a byte order mark", []string{DropIn, own, late, "\xef\xbb\xbf{\"disableAllHooks\":true}"}, false, DropIn, "disableAllHooks"},
		{"no switch that the client takes", []string{DropIn, own, late, `{"disableAllHooks":"true"}`}, true, DropIn, ""},
		{"others let in again", []string{DropIn, own, late, `{"allowManagedHooksOnly":false}`}, true, "", ""},
		{"files that the client doesn't read", []string{DropIn, own, managedDir + "/managed-settings.d/.a.json", `{"disableAllHooks":true}`,
			managedDir + "/managed-settings.d/b.JSON", `{"disableAllHooks":true}`, managedDir + "/managed-mcp.json", `{"disableAllHooks":true}`}, true, DropIn, ""},
		{"empty main file", []string{main, " \n", DropIn, own}, true, DropIn, ""},
		{"malformed", []string{main, "{", DropIn, own}, false, DropIn, "is no JSON object, so the client doesn't start"},
		{"null", []string{main, "null", DropIn, own}, false, DropIn, "it is null"},
		{"a helper's settings", []string{DropIn, own, late, `{"policyHelper":{"path":"/x"}}`}, false, DropIn, "has policyHelper"},
		{"plugins' hooks only", []string{main, `{"strictPluginOnlyCustomization":["hooks"]}`}, false, "", "strictPluginOnlyCustomization"},
		{"none", nil, false, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all []Managed
			for f := range slices.Chunk(c.files, 2) {
				all = append(all, Managed{Path: f[0], Data: []byte(f[1])})
			}
			e := InEffect(all)
			if missing := e.Missing(managedInstall); (len(missing) == 0) != c.held || e.Only != c.only || !strings.Contains(e.Blame(), c.blame) {
				t.Errorf("missing %q, only %q, blames %q", missing, e.Only, e.Blame())
			}
			for _, f := range e.Off {
				if f.Next == "" || f.What == "" || f.File == "" {
					t.Errorf("a fault without remedy: %+v", f)
				}
			}
		})
	}
	e := InEffect([]Managed{{Path: DropIn, Data: []byte(own)}, {Path: late, Error: "no permission"}, {Path: early, Loose: "its mode is 0666"}})
	if len(e.Missing(managedInstall)) != 0 || len(e.Skipped) != 1 || len(e.Loose) != 1 || !strings.Contains(e.Loose[0].Next, "chown root:root") {
		t.Errorf("an unreadable and a writable file beside it: %+v", e)
	}
}

// FuzzInEffect: files of any content say that hooks are in effect only if the
// entries are there, and break nothing.
func FuzzInEffect(f *testing.F) {
	text, err := managedInstall.DropInText()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"hooks":{"PreToolUse":[{"matcher":null,"hooks":[null,{"type":1}]}]},"disableAllHooks":null}`))
	f.Add([]byte(`{"hooks":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e := InEffect([]Managed{{Path: DropIn, Data: data}})
		if len(e.Missing(managedInstall)) == 0 && len(e.Hooks) < len(decideEvents)+len(observeEvents) {
			t.Errorf("%q holds %d hooks", data, len(e.Hooks))
		}
	})
}
