package archtest

import (
	"fmt"
	"go/ast"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	whyTests    = "a claim of safety is only as good as the test that would notice its loss"
	whyLinks    = "a reader who follows a document must arrive"
	whyForeign  = "the repository must build and read the same for everybody: no place of one machine, no registry's host"
	whyModule   = "each dependency is somebody else's code in a security product: one line says what it is worth"
	whyPackages = "a reader finds each folder on the map, or the map isn't one"
	whyChange   = "every change that lands says in one to four lines what it is, under one of the headings that a release gathers"
)

// testName finds tests, fuzzers and benchmarks named in prose.
var testName = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z0-9][A-Za-z0-9_]*)`")

// Tests returns the names of all tests, fuzzers and benchmarks of the tree.
func Tests(files []File) map[string]string {
	names := map[string]string{}
	for _, f := range files {
		if !strings.HasSuffix(f.Path, "_test.go") {
			continue
		}
		for _, decl := range f.AST.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && testName.MatchString("`"+fn.Name.Name+"`") {
				names[fn.Name.Name] = f.Path
			}
		}
	}
	return names
}

// CheckNamedTests wants every test that a document names to exist.
func CheckNamedTests(doc, text string, tests map[string]string) []Finding {
	var found []Finding
	for i, line := range strings.Split(text, "\n") {
		for _, m := range testName.FindAllStringSubmatch(line, -1) {
			if tests[m[1]] == "" {
				found = append(found, Finding{doc, i + 1, "names " + m[1] + ", which is no test of this tree", whyTests})
			}
		}
	}
	return found
}

// CheckThreatModel wants at least one test in each row of the threat table.
func CheckThreatModel(doc, text string) []Finding {
	var found []Finding
	rows := 0
	for i, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "| T") {
			continue
		}
		rows++
		if !testName.MatchString(line) {
			found = append(found, Finding{doc, i + 1, "has an attack without a test", whyTests})
		}
	}
	if rows == 0 {
		found = append(found, Finding{doc, 1, "has no row that starts with \"| T\"", whyTests})
	}
	return found
}

// Cases are the field cases that this version has to hold. Each has a test
// whose name bears its id.
var Cases = []string{
	"P1", "P2", "P4", "P5", "P7", "P8", "F2", "F3", "F5", "S4", "S5", "R2", "V1", "V2",
	"C1", "Z1", "Z2", "Z4", "Z5", "Z7", "Z8", "K1", "K2", "K4", "B1", "B3", "D1", "D3",
	"I1", "I2", "I4", "I5", "I7", "S1", "T6", "Q1", "Q2",
	"S2", "T2", "T3", "T5", "R1", "L1", "L3", "L4", "F6",
}

// Attacks is how many attacks on identity there are, each with a test whose name
// begins with TestAttack and its number.
const Attacks = 28

// CheckAttacks wants a test TestAttackNN_... for each of n attacks.
func CheckAttacks(n int, tests map[string]string) []Finding {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("Attack%02d", i+1)
	}
	return CheckCases(ids, tests)
}

// CheckCases wants a test TestID_... for each case.
func CheckCases(ids []string, tests map[string]string) []Finding {
	var found []Finding
	for _, id := range ids {
		has := false
		for name := range tests {
			has = has || strings.HasPrefix(name, "Test"+id+"_")
		}
		if !has {
			found = append(found, Finding{"internal/archtest/docs.go", 1, "case " + id + " has no test named Test" + id + "_...", whyTests})
		}
	}
	return found
}

// link finds the targets of Markdown links.
var link = regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)]*)?\)`)

// CheckLinks wants relative links of a document to lead to a file.
func CheckLinks(root fs.FS, doc, text string) []Finding {
	var found []Finding
	for i, line := range strings.Split(text, "\n") {
		for _, m := range link.FindAllStringSubmatch(line, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			target := path.Join(path.Dir(doc), m[1])
			if _, err := fs.Stat(root, target); err != nil {
				found = append(found, Finding{doc, i + 1, "links to " + m[1] + ", which is not there", whyLinks})
			}
		}
	}
	return found
}

// foreign is put together from pieces, since this file is searched too.
var foreign = []string{
	"/wo" + "rk/", "proxy.gol" + "ang.org", "sum.gol" + "ang.org", "registry.npm" + "js.org",
	"deb.deb" + "ian.org", "security.deb" + "ian.org",
}

// CheckForeign looks for places of one machine and for registries' hosts.
func CheckForeign(name, text string) []Finding {
	var found []Finding
	for i, line := range strings.Split(text, "\n") {
		for _, word := range foreign {
			if strings.Contains(line, word) {
				found = append(found, Finding{name, i + 1, fmt.Sprintf("mentions %q", word), whyForeign})
			}
		}
	}
	return found
}

// required finds the modules of a go.mod, direct or not.
var required = regexp.MustCompile(`(?m)^(?:require )?\s*([a-z0-9.-]+\.[a-z]+/\S+) v\S+`)

// CheckModules wants a row in the dependencies' document for each module.
func CheckModules(gomod, doc, text string) []Finding {
	var found []Finding
	for _, m := range required.FindAllStringSubmatch(gomod, -1) {
		if !strings.Contains(text, "| "+m[1]+" |") {
			found = append(found, Finding{doc, 1, "has no row for " + m[1] + " of go.mod", whyModule})
		}
	}
	return found
}

// CheckPackages wants each directory with Go files in the first column of the
// document's table of packages, and nothing else there.
func CheckPackages(files []File, doc, text string) []Finding {
	_, section, _ := strings.Cut(text, "\n## Packages\n")
	section, _, _ = strings.Cut(section, "\n## ")
	named := map[string]bool{}
	for _, line := range strings.Split(section, "\n") {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(strings.Split(line, "|")[1], -1) {
			named[m[1]] = true
		}
	}
	var found []Finding
	there := map[string]bool{}
	for _, f := range files {
		if !there[f.Dir] && !named[f.Dir] {
			found = append(found, Finding{doc, 1, "has no row for the package " + f.Dir, whyPackages})
		}
		there[f.Dir] = true
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if !there[name] {
			found = append(found, Finding{doc, 1, "has a row for " + name + ", which is no package", whyPackages})
		}
	}
	return found
}

// quoted finds what stands between backquotes.
var quoted = regexp.MustCompile("`([^`]+)`")

// heading is where a release puts an entry of the change log.
var heading = regexp.MustCompile(`^(Security|Added|Changed|Fixed|Removed): `)

// CheckChange judges one entry of the change log.
func CheckChange(name, text string) []Finding {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if strings.TrimSpace(text) == "" || len(lines) > 4 {
		return []Finding{{name, 1, fmt.Sprintf("has %d lines, want 1 to 4", len(lines)), whyChange}}
	}
	if !heading.MatchString(text) {
		return []Finding{{name, 1, `begins with none of "Security: ", "Added: ", "Changed: ", "Fixed: ", "Removed: "`, whyChange}}
	}
	return nil
}
