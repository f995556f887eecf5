package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// tree loads the module's own sources.
func tree(t *testing.T) (root string, files []File) {
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
		t.Fatalf("found %d Go files below %q: the walk misses the tree", len(files), root)
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
}

// TestDocumentsHold checks what the documents name, link to and promise.
func TestDocumentsHold(t *testing.T) {
	root, files := tree(t)
	tests := Tests(files)
	threats, changes := 0, 0
	err := Walk(root, func(rel string) error {
		if !strings.HasSuffix(rel, ".md") {
			return nil
		}
		b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(rel)))
		if err != nil {
			return err
		}
		text := string(b)
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

// TestNothingForeign holds every text file to name no place outside the tree.
func TestNothingForeign(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	err = Walk(root, func(rel string) error {
		b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(rel)))
		if err != nil {
			return err
		}
		if utf8.Valid(b) {
			report(t, CheckForeign(rel, string(b)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
