package archtest

import (
	"io/fs"
	"strings"
	"testing"
	"unicode/utf8"
)

// tree loads the module's own sources.
func tree(t *testing.T) (root fs.FS, files []File) {
	t.Helper()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	files, err = Load(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("found %d Go files: the walk misses the tree", len(files))
	}
	return root, files
}

func report(t *testing.T, found []Finding) {
	t.Helper()
	for _, f := range found {
		t.Error(f)
	}
}

func TestImportRulesHold(t *testing.T) {
	_, files := tree(t)
	report(t, CheckImports(files, ImportRules))
}

func TestUseRulesHold(t *testing.T) {
	_, files := tree(t)
	report(t, CheckUses(files, UseRules))
}

func TestSizesHold(t *testing.T) {
	_, files := tree(t)
	report(t, CheckSizes(files))
	report(t, CheckManuals(files))
}

func TestCasesHaveTests(t *testing.T) {
	_, files := tree(t)
	report(t, CheckCases(Cases, Tests(files)))
	report(t, CheckAttacks(Attacks, Tests(files)))
}

// TestDocumentsHold checks what the documents name, link to and promise.
func TestDocumentsHold(t *testing.T) {
	root, files := tree(t)
	tests := Tests(files)
	threats, changes := 0, 0
	err := Walk(root, func(rel, text string) error {
		if !strings.HasSuffix(rel, ".md") {
			return nil
		}
		report(t, CheckNamedTests(rel, text, tests))
		report(t, CheckLinks(root, rel, text))
		if rel == "docs/threat-model.md" {
			threats++
			report(t, CheckThreatModel(rel, text))
		}
		if strings.HasPrefix(rel, "changelog/unreleased/") {
			changes++
			report(t, CheckChange(rel, text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if threats != 1 {
		t.Error("docs/threat-model.md is not there")
	}
	if changes == 0 {
		t.Error("changelog/unreleased has no entry")
	}
}

// TestStatementsHaveTests holds what is said of policies elsewhere to its row here.
func TestStatementsHaveTests(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	const doc = "docs/policy.md"
	text, err := fs.ReadFile(root, doc)
	if err != nil {
		t.Fatal(err)
	}
	report(t, CheckStatements(Statements(), doc, string(text)))
}

// TestDependenciesAreExplained holds go.mod and its document together.
func TestDependenciesAreExplained(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	const doc = "docs/dependencies.md"
	gomod, err := fs.ReadFile(root, "go.mod")
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(root, doc)
	if err != nil {
		t.Fatal(err)
	}
	report(t, CheckModules(string(gomod), doc, string(text)))
}

// TestPackagesAreOnTheMap holds the tree and the table of packages together.
func TestPackagesAreOnTheMap(t *testing.T) {
	root, files := tree(t)
	const doc = "docs/architecture.md"
	text, err := fs.ReadFile(root, doc)
	if err != nil {
		t.Fatal(err)
	}
	report(t, CheckPackages(files, doc, string(text)))
}

// TestNothingForeign holds every text file to name no place outside the tree.
func TestNothingForeign(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	err = Walk(root, func(rel, text string) error {
		if utf8.ValidString(text) {
			report(t, CheckForeign(rel, text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
