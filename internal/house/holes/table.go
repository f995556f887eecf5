package main

import (
	"fmt"
	"os"
	"strings"

	"leaseguard.internal/internal/holes"
)

// What stands between the two in the document is this command's.
const (
	begin = "<!-- holes: written by make holes -->\n"
	end   = "<!-- /holes -->\n"
)

// writeTable puts the rows between the document's marks.
func writeTable(path string, rows []holes.Row) error {
	text, err := os.ReadFile(path) // #nosec G304 -- of this repository
	if err != nil {
		return err
	}
	changed, err := replace(string(text), table(rows))
	if err != nil {
		return fmt.Errorf("writing %q: %w", path, err)
	}
	if changed == string(text) {
		return nil
	}
	return os.WriteFile(path, []byte(changed), 0o600) // #nosec G703 -- of this repository
}

func replace(text, middle string) (string, error) {
	before, rest, found := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed || strings.Contains(after, begin) {
		return "", fmt.Errorf("want the lines %q and %q once each, in that order", begin, end)
	}
	return before + begin + "\n" + middle + "\n" + end + after, nil
}

func table(rows []holes.Row) string {
	var b strings.Builder
	b.WriteString("| host | version | hole | state | by, or what to do | test |\n|---|---|---|---|---|---|\n")
	for _, r := range rows {
		test, _, _ := strings.Cut(r.Test, "/")
		by := cell(r.By)
		if r.Nightly {
			by += " (tried nightly)"
		}
		fmt.Fprintf(&b, "| %s | %s | `%s`: %s | %s | %s | `%s` |\n", r.Host, r.Version, r.ID, cell(r.What), r.State, by, test)
	}
	return b.String()
}

// cell keeps a text from being read as marks of the document's.
var cell = strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", "*", `\*`, "\n", " ").Replace
