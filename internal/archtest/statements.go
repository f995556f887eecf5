package archtest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const whyStatements = "a difference from what policies follow is a promise to who brings files and servers of theirs along: each has its reason, and a test that shows it"

// Statements are the ids of what is said of the two systems that policy hooks and
// policy server follow, and of their weaknesses.
func Statements() []string {
	var ids []string
	for _, part := range []struct {
		letter string
		most   int
	}{{"M", 40}, {"W", 14}, {"O", 33}, {"X", 15}} {
		for n := range part.most {
			ids = append(ids, fmt.Sprint(part.letter, n+1))
		}
	}
	return ids
}

// statement is the beginning of a row about one.
var statement = regexp.MustCompile(`^\| ([MWOX][0-9]+) \|`)

// CheckStatements wants one row of the document for each id, and in it a test that
// bears the id: TestM7_MatcherGrammar, or TestM33_W5_Grandchild for two.
func CheckStatements(ids []string, doc, text string) []Finding {
	var found []Finding
	rows := map[string]int{}
	for i, line := range strings.Split(text, "\n") {
		m := statement.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		id := m[1]
		rows[id]++
		switch {
		case !slices.Contains(ids, id):
			found = append(found, Finding{doc, i + 1, "has a row for " + id + ", which is no statement", whyStatements})
		case rows[id] > 1:
			found = append(found, Finding{doc, i + 1, "has a second row for " + id, whyStatements})
		case !slices.ContainsFunc(testName.FindAllStringSubmatch(line, -1), func(m []string) bool { return bears(m[1], id) }):
			found = append(found, Finding{doc, i + 1, "names no test for " + id + " that bears its id", whyStatements})
		}
	}
	for _, id := range ids {
		if rows[id] == 0 {
			found = append(found, Finding{doc, 1, "has no row for " + id, whyStatements})
		}
	}
	return found
}

// bears says whether id is among the ids that a test's name begins with.
func bears(test, id string) bool {
	for part := range strings.SplitSeq(strings.TrimPrefix(test, "Test"), "_") {
		if part == id {
			return true
		}
		if !statement.MatchString("| " + part + " |") {
			return false
		}
	}
	return false
}
