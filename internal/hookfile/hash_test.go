package hookfile

import (
	"regexp"
	"strings"
	"testing"

	"leaseguard.internal/internal/wire"
)

// TestM15_OldHashIsThatOfTheOldTrustFile: the values are those of another
// program's JSON and SHA-256.
func TestM15_OldHashIsThatOfTheOldTrustFile(t *testing.T) {
	plain := Definition{Source: User, Matcher: "*", Command: "/bin/x", Args: nil, TimeoutMS: 100}
	for _, tt := range []struct{ name, got, want string }{
		{"all kinds of text", hashed.OldHash(hashedIdentity), "5df0dea214ccc915b2e54ef3689eace0a783d23084f1555704f517a302cecdae"},
		{"no arguments", plain.OldHash(UserIdentity), "ec5ff7e108e1918b18ad59093552d658b8b7434a95f72c6c381a0dac54cd14ae"},
		{"key", hashed.Key(hashedIdentity), "4f0002fcaeb73915dfd36368ec9ceaca3dfdb93755dcf45d5e38cc38a01b2201"},
		{"with files", hashed.Hash(hashedIdentity, []wire.HookFile{{Arg: 0, SHA256: "00"}, {Arg: 2, SHA256: "ff"}}), "f1533904d95c2e926c636b46755dee0361f243b7d27a7fe6bccee3d62a437f6e"},
	} {
		if tt.got != "sha256:"+tt.want {
			t.Errorf("%s: %s", tt.name, tt.got)
		}
	}
}

// TestM15_HashCoversWhatRunsAndNotWhereItStands: each change of the definition,
// of its identity or of the bytes of a file is another hash; id, order and enabled
// are not in it.
func TestM15_HashCoversWhatRunsAndNotWhereItStands(t *testing.T) {
	files := []wire.HookFile{{Arg: 0, SHA256: "00"}}
	base := hashed.Hash(hashedIdentity, files)
	change := func(f func(*Definition)) Definition {
		d := hashed
		d.Args = append([]string{}, d.Args...)
		f(&d)
		return d
	}
	for name, d := range map[string]Definition{
		"id":        change(func(d *Definition) { d.ID = "y" }),
		"enabled":   change(func(d *Definition) { d.Enabled = false }),
		"place":     change(func(d *Definition) { d.Line = 77 }),
		"no effect": change(func(d *Definition) { d.OnError = "" }), // as deny
	} {
		if d.Hash(hashedIdentity, files) != base || d.Key(hashedIdentity) != hashed.Key(hashedIdentity) {
			t.Errorf("%s changes it", name)
		}
	}
	for name, d := range map[string]Definition{
		"source":   change(func(d *Definition) { d.Source = User }),
		"matcher":  change(func(d *Definition) { d.Matcher = "Bash" }),
		"command":  change(func(d *Definition) { d.Command += "2" }),
		"argument": change(func(d *Definition) { d.Args[3] = "x" }),
		"joined":   change(func(d *Definition) { d.Args = []string{strings.Join(d.Args, ",")} }),
		"fewer":    change(func(d *Definition) { d.Args = d.Args[:3] }),
		"timeout":  change(func(d *Definition) { d.TimeoutMS++ }),
		"onError":  change(func(d *Definition) { d.OnError = Allow }),
	} {
		if d.Hash(hashedIdentity, files) == base || d.Key(hashedIdentity) == hashed.Key(hashedIdentity) {
			t.Errorf("%s doesn't change it", name)
		}
	}
	for name, got := range map[string]string{
		"another identity": hashed.Hash(hashedIdentity+"x", files),
		"other bytes":      hashed.Hash(hashedIdentity, []wire.HookFile{{Arg: 0, SHA256: "01"}}),
		"one more file":    hashed.Hash(hashedIdentity, append(files, wire.HookFile{Arg: 1, SHA256: "00"})),
		"no files":         hashed.Hash(hashedIdentity, nil),
		"the key":          hashed.Key(hashedIdentity),
	} {
		if got == base {
			t.Errorf("%s gives the same hash", name)
		}
	}
}

func TestM16_IdentityIsTheUserOrTheDirectory(t *testing.T) {
	if UserIdentity != "user" || ProjectIdentity("/srv/app") != "workspace:/srv/app" {
		t.Errorf("%q, %q: not those of the old trust file", UserIdentity, ProjectIdentity("/srv/app"))
	}
	if hashed.Key(ProjectIdentity("/a")) == hashed.Key(ProjectIdentity("/b")) {
		t.Error("trust would cross from one project to another")
	}
}

func TestM25_Match(t *testing.T) {
	for _, tt := range []struct {
		matcher, tool string
		want          bool
	}{
		{"*", "Bash", true},
		{"*", "", true},
		{"Bash", "Bash", true},
		{"Bash", "bash", false},
		{"Bash", "BashOutput", false},
		{"Bash*", "BashOutput", true},
		{"Bash*", "Bash", true},
		{"Bash|Write", "Write", true},
		{"Bash|Write", "Bash|Write", false},
		{"mcp__github__*", "mcp__github__push", true},
		{"mcp__github__*", "mcp__gitlab__push", false},
		{"a*|*", "Read", true},
		{"?ash", "Bash", false},
		{"B ash", "B ash", true},
	} {
		if got := (Definition{Matcher: tt.matcher}).Match(tt.tool); got != tt.want {
			t.Errorf("%q on %q: %t", tt.matcher, tt.tool, got)
		}
	}
}

var anyHash = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// FuzzParse: whatever is taken keeps its bounds, matches what it says, and is
// refused as a whole otherwise.
func FuzzParse(f *testing.F) {
	for _, s := range []string{with(``), with(`,"args":["-c","x"],"timeoutMs":100,"enabled":false,"onError":"allow"`), matching(`"a*|B"`), `{"version":1}`, "{", "\xff"} {
		f.Add([]byte(s), "Bash")
	}
	f.Fuzz(func(t *testing.T, data []byte, tool string) {
		file, err := Parse(data, Project)
		if err != nil {
			if len(file.Definitions) != 0 || strings.Contains(err.Error(), "\n") || len(err.Error()) > 1000 {
				t.Fatalf("%d definitions with %q", len(file.Definitions), err)
			}
			return
		}
		if len(file.Definitions) > MaxHandlers {
			t.Fatal("too many handlers")
		}
		ids := map[string]bool{}
		for _, d := range file.Definitions {
			if ids[d.ID] || d.Command[0] != '/' || d.TimeoutMS < minTimeout || d.TimeoutMS > maxTimeout || matcherFault(d.Matcher) != "" || d.Line < 1 || d.Args == nil {
				t.Fatalf("%+v", d)
			}
			ids[d.ID] = true
			if d.Matcher == "*" && !d.Match(tool) || !anyHash.MatchString(d.Key("user")) {
				t.Fatalf("%+v on %q", d, tool)
			}
		}
	})
}
