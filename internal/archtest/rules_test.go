package archtest

import (
	"strings"
	"testing"
	"testing/fstest"
)

// parse reads a file of the given path and text, which begins after its
// package clause.
func parse(t *testing.T, path, body string) []File {
	t.Helper()
	f, err := Parse(path, "// Package p is documented.\npackage p\n"+body)
	if err != nil {
		t.Fatal(err)
	}
	return []File{f}
}

// TestImportRulesBite shows for each direction a file that breaks it, and one
// beside it that doesn't.
func TestImportRulesBite(t *testing.T) {
	cases := []struct {
		path, target string
		want         bool
	}{
		{"internal/wire/x.go", "leaseguard.internal/broker/lease", true},
		{"internal/wire/x.go", "leaseguard.internal/internal/clock", false},
		{"internal/wire/x.go", "leaseguard.internal/gate/dialect", true},
		{"internal/wire/x_test.go", "leaseguard.internal/gate", false},
		{"broker/x.go", "leaseguard.internal/launcher", true},
		{"broker/x.go", "leaseguard.internal/gate", true},
		{"broker/x.go", "leaseguard.internal/gate/dialect", false},
		{"broker/policy/x.go", "leaseguard.internal/cmd/guard", true},
		{"launcher/x.go", "leaseguard.internal/broker/token", true},
		{"launcher/x.go", "leaseguard.internal/internal/client", false},
		{"lint/rules/x.go", "leaseguard.internal/internal/peer", true},
		{"gate/x.go", "os", true},
		{"gate/x.go", "leaseguard.internal/internal/wire", true},
		{"gate/x.go", "syscall", false},
		{"gate/x_test.go", "leaseguard.internal/internal/wire", false},
		{"cmd/guard-gate/main.go", "fmt", true},
		{"cmd/guard-gate/main.go", "leaseguard.internal/gate", false},
		{"gate/dialect/x.go", "os", true},
		{"gate/dialect/x.go", "net/http", true},
		{"gate/dialect/x.go", "golang.org/x/sys/unix", true},
		{"gate/dialect/x.go", "strings", false},
		{"broker/lease/x.go", "sync", true},
		{"broker/lease/x.go", "leaseguard.internal/internal/clock", false},
		{"broker/token/x.go", "os/exec", true},
		{"broker/token/x.go", "crypto/sha256", false},
		{"broker/x_test.go", "go.etcd.io/bbolt", true},
		{"broker/store/x.go", "go.etcd.io/bbolt", false},
		{"broker/store/x.go", "go.etcd.io/bbolt/errors", false},
		{"launcher/x.go", "github.com/spf13/cobra", true},
		{"cmd/guard/cli/x.go", "github.com/spf13/cobra", false},
		{"broker/x.go", "github.com/pelletier/go-toml/v2", true},
		{"internal/config/x.go", "github.com/pelletier/go-toml/v2/unstable", false},
		{"broker/x.go", "github.com/coreos/go-systemd/v22/daemon", true},
		{"broker/x.go", "testing", true},
		{"internal/testproc/x.go", "testing", false},
		{"broker/x_test.go", "pgregory.net/rapid", false},
		{"broker/token/x.go", "math/rand/v2", true},
	}
	for _, c := range cases {
		t.Run(c.path+" "+c.target, func(t *testing.T) {
			found := CheckImports(parse(t, c.path, "import _ \""+c.target+"\"\n"), ImportRules)
			if (len(found) > 0) != c.want {
				t.Errorf("found %v, want a finding: %v", found, c.want)
			}
			for _, f := range found {
				if f.Why == "" || f.Line != 3 {
					t.Errorf("%v: want a reason and line 3", f)
				}
			}
		})
	}
}

// TestUseRulesBite shows what may be mentioned where.
func TestUseRulesBite(t *testing.T) {
	cases := []struct {
		name, path, imports, expr string
		want                      bool
	}{
		{"wall clock", "broker/x.go", "time", "time.Now()", true},
		{"wall clock in its package", "internal/clock/x.go", "time", "time.Now()", false},
		{"wall clock in a test", "broker/x_test.go", "time", "time.Now()", false},
		{"wall clock under another name", "broker/x.go", "t time", "t.Now()", true},
		{"timer as a value", "broker/x.go", "time", "time.NewTimer", true},
		{"duration", "broker/x.go", "time", "time.Second", false},
		{"method of a variable", "broker/x.go", "time", "func(time interface{ Now() int }) int { return time.Now() }", false},
		{"credentials", "broker/x.go", "golang.org/x/sys/unix", "unix.SO_PEERCRED", true},
		{"credentials in a test", "broker/x_test.go", "golang.org/x/sys/unix", "unix.SO_PEERPIDFD", true},
		{"credentials in their package", "internal/peer/x.go", "golang.org/x/sys/unix", "unix.SO_PEERPIDFD", false},
		{"credentials by syscall", "launcher/x.go", "syscall", "syscall.ParseUnixCredentials", true},
		{"credentials in the gate", "gate/x.go", "syscall", "syscall.GetsockoptUcred", false},
		{"pidfd", "launcher/x.go", "golang.org/x/sys/unix", "unix.PidfdOpen", true},
		{"folding decoder", "internal/wire/x.go", "encoding/json", "json.Unmarshal", true},
		{"encoder", "internal/wire/x.go", "encoding/json", "json.Marshal", false},
		{"exit", "broker/x.go", "os", "os.Exit", true},
		{"exit of a main", "cmd/guard/main.go", "os", "os.Exit", false},
		{"fatal", "cmd/guard/main.go", "log", "log.Fatalf", true},
		{"print", "cmd/guard/cli/x.go", "fmt", "fmt.Println", true},
		{"print to a writer", "cmd/guard/cli/x.go", "fmt", "fmt.Fprintln", false},
		{"default client", "internal/zerto/x.go", "net/http", "http.DefaultClient", true},
		{"request", "internal/zerto/x.go", "net/http", "http.NewRequest", false},
		{"a peer's path", "broker/x.go", "os", "os.Stat", true},
		{"a peer's link", "internal/peer/x.go", "golang.org/x/sys/unix", "unix.Stat", true},
		{"links of a peer's path", "broker/session/x.go", "path/filepath", "filepath.EvalSymlinks", true},
		{"a path of the launcher's user", "launcher/x.go", "os", "os.Stat", false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			local, target, named := strings.Cut(c.imports, " ")
			spec := `"` + local + `"`
			if named {
				spec = local + ` "` + target + `"`
			}
			found := CheckUses(parse(t, c.path, "import "+spec+"\nvar _ = "+c.expr+"\n"), UseRules)
			if (len(found) > 0) != c.want {
				t.Errorf("found %v, want a finding: %v", found, c.want)
			}
		})
	}
}

func TestSizeRulesBite(t *testing.T) {
	lines := func(n int) string { return strings.Repeat("\n", n) }
	cases := []struct {
		name, path, body string
		want             int
	}{
		{"short", "broker/x.go", lines(10), 0},
		{"at the ceiling", "broker/x.go", lines(MaxFileLines - 2), 0},
		{"over it", "broker/x.go", lines(MaxFileLines - 1), 1},
		{"a test", "broker/x_test.go", lines(2 * MaxFileLines), 0},
		{"a long function", "broker/x.go", "func f() {" + lines(MaxFuncLines) + "}\n", 1},
		{"a function at the ceiling", "broker/x.go", "func f() {" + lines(MaxFuncLines-1) + "}\n", 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if found := CheckSizes(parse(t, c.path, c.body)); len(found) != c.want {
				t.Errorf("found %v, want %d", found, c.want)
			}
		})
	}
	t.Run("the gate in all", func(t *testing.T) {
		half := lines(MaxGateLines / 2)
		files := append(parse(t, "gate/a.go", half), parse(t, "gate/b.go", half)...)
		if found := CheckSizes(files); len(found) != 1 {
			t.Errorf("found %v, want 1", found)
		}
	})
	t.Run("no package comment", func(t *testing.T) {
		f, err := Parse("broker/x.go", "package broker\n")
		if err != nil {
			t.Fatal(err)
		}
		if found := CheckManuals([]File{f}); len(found) != 1 {
			t.Errorf("found %v, want 1", found)
		}
	})
}

func TestDocumentRulesBite(t *testing.T) {
	files, err := Parse("broker/x_test.go", "package broker\nfunc TestP1_Truth(t int) {}\nfunc (x) TestNo() {}\nfunc helper() {}\n")
	if err != nil {
		t.Fatal(err)
	}
	tests := Tests([]File{files})
	if len(tests) != 1 || tests["TestP1_Truth"] != "broker/x_test.go" {
		t.Fatalf("tests: %v", tests)
	}
	root := fstest.MapFS{"docs/d.md": {}}
	at := func(dirs ...string) (all []File) {
		for _, dir := range dirs {
			all = append(all, File{Dir: dir})
		}
		return all
	}
	cases := []struct {
		name string
		got  []Finding
		want int
	}{
		{"a test that exists", CheckNamedTests("d.md", "see `TestP1_Truth`", tests), 0},
		{"one that doesn't", CheckNamedTests("d.md", "see `TestP1_Lie` and `FuzzLie`", tests), 2},
		{"cases", CheckCases([]string{"P1", "P2"}, tests), 1},
		{"an attack with a test", CheckThreatModel("d.md", "| T1 | x | y | `TestP1_Truth` |"), 0},
		{"an attack without", CheckThreatModel("d.md", "| T1 | x | y | later |"), 1},
		{"no attacks", CheckThreatModel("d.md", "none"), 1},
		{"a statement with its test", CheckStatements([]string{"M3", "W5"}, "d.md", "| M3 | `TestW5_M3_X` |\n| W5 | `TestW5_X`, `TestOther` |"), 0},
		{"statements without", CheckStatements([]string{"M3", "M33", "W1", "W2"}, "d.md", "| M3 | `TestM33_X` |\n| M33 | `TestX_M33` |\n| W1 | |\n| W9 | `TestW9_X` |"), 5},
		{"a statement twice", CheckStatements([]string{"M3"}, "d.md", "| M3 | `TestM3_X` |\n| M3 | `TestM3_X` |"), 1},
		{"links", CheckLinks(root, "docs/d.md", "[a](../absent.md) [b](https://example.org/) [c](#here) [d](d.md#x)"), 1},
		{"a place", CheckForeign("x", "cat /wo"+"rk/x"), 1},
		{"a module", CheckModules("require (\n\texample.org/m v1.2.3 // indirect\n)\n", "d.md", "| example.org/m | good |"), 0},
		{"modules without a row", CheckModules("require example.org/m v1.2.3\nrequire (\n\tx.org/a/v2 v2.0.0\n)\n", "d.md", "m"), 2},
		{"a package with its row", CheckPackages(at("a", "a", "b/c"), "d.md", "\n## Packages\n| `a`, `b/c` | x |\n## More\n| `z` | z |\n"), 0},
		{"a package without, and a row without", CheckPackages(at("a", "b"), "d.md", "\n## Packages\n| `a`, `c` | `b` |\n"), 2},
		{"an entry", CheckChange("x", "Added: one line.\n"), 0},
		{"an entry without a heading", CheckChange("x", "One line.\n"), 1},
		{"an empty entry", CheckChange("x", "\n"), 1},
		{"a long entry", CheckChange("x", "Fixed: 1\n2\n3\n4\n5\n"), 1},
	}
	for _, c := range cases {
		if len(c.got) != c.want {
			t.Errorf("%s: found %v, want %d", c.name, c.got, c.want)
		}
	}
}
