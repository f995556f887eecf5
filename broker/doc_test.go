package broker

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// doc.go's list of where to look has each file, and nothing else.
func TestDocListsEachFile(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var listed, there []string
	for _, m := range regexp.MustCompile(`(?m)^//\t([a-z_]+\.go) `).FindAllStringSubmatch(string(text), -1) {
		listed = append(listed, m[1])
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && name != "doc.go" {
			there = append(there, name)
		}
	}
	slices.Sort(listed)
	if !slices.Equal(listed, there) {
		t.Errorf("doc.go lists\n%q\nthe directory has\n%q", listed, there)
	}
}
