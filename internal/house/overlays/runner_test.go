package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// module is a small module with one promise and its test.
func module(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module example.test/small\n\ngo 1.26\n",
		"door.go": "package small\n\n// Open says whether the door opens.\nfunc Open(key int) bool { return key == 7 }\n",
		"door_test.go": "package small\n\nimport \"testing\"\n\nfunc TestLocked(t *testing.T) {\n\tif Open(6) || !Open(7) {\n\t\tt.Error(\"any key, or none\")\n\t}\n}\n\n" +
			"func TestSleeps(t *testing.T) { _ = Open(0) }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRunner(t *testing.T) {
	door := mutant{name: "any-key", breaks: "one key opens", file: "door.go", old: "key == 7", new: "key > 0", pkg: ".", test: "TestLocked"}
	with := func(change func(*mutant)) mutant {
		m := door
		change(&m)
		return m
	}
	for name, tt := range map[string]struct {
		mutants []mutant
		want    []string // parts of the problems, in their order
	}{
		"a defence that is missed": {[]mutant{door}, nil},
		"one that nobody misses, and one that doesn't compile": {
			[]mutant{with(func(m *mutant) { m.test = "TestSleeps" }), door, with(func(m *mutant) { m.name, m.new = "broken", "key == oops" })},
			[]string{"any-key: TestSleeps in .: pass, although this is broken: one key opens", "broken: it doesn't compile"},
		},
		"code that has moved on": {
			[]mutant{with(func(m *mutant) { m.old = "key == 8" }), with(func(m *mutant) { m.old = "Open" })},
			[]string{"stands 0 times in door.go", "stands 2 times in door.go"},
		},
		"a test that isn't there": {[]mutant{with(func(m *mutant) { m.test = "TestGone" })}, []string{`TestGone in . without any change: "", want pass`}},
		"a file that isn't there": {[]mutant{with(func(m *mutant) { m.file = "gone.go" })}, []string{"no such file"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			r, err := newRunner(module(t), &out)
			if err != nil {
				t.Fatal(err)
			}
			defer r.close()
			got, err := r.all(t.Context(), tt.mutants)
			if err != nil || len(got) != len(tt.want) {
				t.Fatalf("%q, %v; want %d problems", got, err, len(tt.want))
			}
			for i, want := range tt.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("problem %q, want %q in it", got[i], want)
				}
			}
			if red := strings.Count(out.String(), "red  any-key"); len(tt.want) == 0 && red != 1 {
				t.Errorf("it said %q", out.String())
			}
			if left, _ := filepath.Glob(filepath.Join(r.root, "*")); len(left) != 3 {
				t.Errorf("the tree was touched: %q", left)
			}
		})
	}
}

// TestReadTwice: of two reports of one test, a failure counts, and a skip doesn't.
func TestReadTwice(t *testing.T) {
	for said, want := range map[string]string{"pass skip": "pass", "skip pass": "pass", "fail pass": "fail", "pass fail": "fail", "fail skip": "fail", "skip": "skip", "output": ""} {
		var out string
		for action := range strings.FieldsSeq(said) {
			out += `{"Action":"` + action + `","Package":"p","Test":"TestX"}` + "\n" + `{"Action":"pass","Package":"p"}` + "\n"
		}
		if o, err := read([]byte(out)); err != nil || o.tests["TestX"] != want {
			t.Errorf("%s gives %q, %v; want %q", said, o.tests["TestX"], err, want)
		}
	}
	if _, err := read([]byte("go: no such package\n")); err == nil {
		t.Error("what isn't JSON was taken")
	}
}

// TestTable: each entry still fits the code, names a test that exists, and says
// what it breaks. Whether the tests turn red is for make overlays.
func TestTable(t *testing.T) {
	const root = "../../.."
	r, err := newRunner(root, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	for _, problem := range r.drift(table()) {
		t.Error(problem)
	}
	var names []string
	for _, m := range table() {
		if slices.Contains(names, m.name) || !regexp.MustCompile(`^[a-z]+(-[a-z0-9]+)*$`).MatchString(m.name) || m.breaks == "" || !strings.HasPrefix(m.pkg, "./") {
			t.Errorf("entry %+v: the name isn't its own, or something is missing", m)
		}
		names = append(names, m.name)
		files, _ := filepath.Glob(filepath.Join(root, m.pkg, "*_test.go"))
		found := slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && bytes.Contains(text, []byte("func "+m.test+"(t *testing.T)"))
		})
		if !found {
			t.Errorf("%s: %s has no %s", m.name, m.pkg, m.test)
		}
	}
	if len(names) < 12 {
		t.Errorf("%d entries, want twelve or more", len(names))
	}
}

func TestUsage(t *testing.T) {
	for args, want := range map[string]int{"-list": 0, "-only (": 2, "-what": 2, "more": 2} {
		var out, errs bytes.Buffer
		if got := run(t.Context(), strings.Fields(args), &out, &errs); got != want {
			t.Errorf("overlays %s: exit %d, want %d: %s", args, got, want, errs.String())
		}
		if args == "-list" && !strings.Contains(out.String(), "token-not-consumed") {
			t.Errorf("the list: %q", out.String())
		}
	}
}
