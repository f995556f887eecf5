package config

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leaseguard.internal/internal/paths"
)

var templateLine = regexp.MustCompile(`^(#?)(\w+) = (.+)$|^#?\[+(\w+)\]+$`)

// templateKeys returns the keys of a template with their values, and which of
// them are commented out.
func templateKeys(t *testing.T, text string) (order []string, values map[string]string, off map[string]bool) {
	t.Helper()
	values, off = map[string]string{}, map[string]bool{}
	table := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		m := templateLine.FindStringSubmatch(line)
		switch {
		case m == nil && line != "" && !strings.HasPrefix(line, "# "):
			t.Errorf("line %q is no key, table or comment", line)
		case m != nil && m[4] != "":
			table = m[4]
		case m != nil:
			name := table + "." + m[2]
			order, values[name], off[name] = append(order, name), m[3], m[1] != ""
		}
	}
	return order, values, off
}

func TestTemplateListsTheKeysOfTheDecoder(t *testing.T) {
	order, values, off := templateKeys(t, string(Template(Answers{})))
	var want []string
	for _, k := range keys {
		want = append(want, k.name)
		text := k.def
		if text == "" {
			text = k.example
		}
		if values[k.name] != text || !off[k.name] {
			t.Errorf("%s is %s (commented out: %v), want %s behind a #", k.name, values[k.name], off[k.name], text)
		}
	}
	if d := cmp.Diff(want, order); d != "" {
		t.Error(d)
	}
}

// The docs' defaults are the decoder's (docs_test.go), and so are these.
func TestTemplateMeansTheDefaults(t *testing.T) {
	want := Default()
	want.Path = path
	text := string(Template(Answers{}))
	for name, text := range map[string]string{"as it is": text, "with its defaults uncommented": uncomment(text)} {
		got, err := decode(path, paths.User, []byte(text))
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%s: %v %s", name, err, d)
		}
	}
}

// uncomment takes the # from the keys that have a default, but of [zvm],
// [policy_server] and [[tool]], which aren't there by default.
func uncomment(text string) string {
	table := ""
	var b strings.Builder
	for line := range strings.Lines(text) {
		m := templateLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m != nil && m[4] != "" {
			table = m[4]
		}
		if m != nil && m[1] != "" {
			if k, ok := findKey(table + "." + m[2]); ok && k.def != "" && table != "zvm" && table != policyServer && table != toolTable {
				line = strings.TrimPrefix(line, "#")
			}
		}
		b.WriteString(line)
	}
	return b.String()
}

func TestEveryKeyIsAcceptedAtItsDefault(t *testing.T) {
	for _, k := range keys {
		if k.def == "" || k.name == "zvm.accept_same_uid" { // whose default user mode refuses
			continue
		}
		_, name := k.split()
		if _, err := decode(path, paths.User, []byte(fileWith(k, name+" = "+k.def))); err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
	}
}

func TestExamplesOfTheTemplate(t *testing.T) {
	for _, k := range keys {
		if k.example == "" {
			continue
		}
		_, name := k.split()
		if _, err := decode(path, paths.User, []byte(fileWith(k, name+" = "+k.example))); err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
	}
}

func TestTemplateWithAnswers(t *testing.T) {
	odd := "a\"b\\c\td\u202e 'ü' #"
	tests := []struct {
		name    string
		answers Answers
		want    func(*Config)
	}{
		{"nothing", Answers{}, func(*Config) {}},
		{"one machine", Answers{Self: []string{"app-01"}}, func(c *Config) { c.Checkpoint.Self = []string{"app-01"} }},
		{"several", Answers{Self: []string{"a", odd}}, func(c *Config) { c.Checkpoint.Self = []string{"a", odd} }},
		{"none", Answers{SelfNone: true}, func(c *Config) { c.Checkpoint.SelfNone = true }},
		{"root sessions", Answers{AllowRootSessions: true}, func(c *Config) { c.Identity.AllowRootSessions = true }},
		{"client", Answers{ZVM: &ZVM{URL: "https://z", CAFile: "ca.pem", ClientID: odd, ClientSecretFile: "/s", AcceptSameUID: true}},
			func(c *Config) {
				c.ZVM = &ZVM{URL: "https://z", CAFile: "/etc/guard/ca.pem", ClientID: odd, ClientSecretFile: "/s", AcceptSameUID: true}
			}},
		{"user", Answers{ZVM: &ZVM{URL: "https://z", SPKISHA256: "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", Username: "u", PasswordFile: odd, AcceptSameUID: true}},
			func(c *Config) {
				c.ZVM = &ZVM{URL: "https://z", SPKISHA256: "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", Username: "u", PasswordFile: "/etc/guard/" + odd, AcceptSameUID: true}
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decode(path, paths.User, Template(tt.answers))
			if err != nil {
				t.Fatal(err)
			}
			want := Default()
			want.Path = path
			tt.want(want)
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// A catalog is written below the template.
func TestTemplateTakesToolsAtItsEnd(t *testing.T) {
	text := string(Template(Answers{})) + "\n[[tool]]\nmatch = \"x\"\nclass = \"mutating\"\n"
	if c, err := decode(path, paths.User, []byte(text)); err != nil || len(c.Tools) != 1 {
		t.Errorf("%v, %v", c, err)
	}
}
