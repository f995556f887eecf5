package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/holes"
)

// collect reads what a run reported, one file for each row.
func collect(dir string) ([]holes.Row, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []holes.Row
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		if !f.Type().IsRegular() {
			return nil, fmt.Errorf("reading %q: it is no regular file", path)
		}
		text, err := os.ReadFile(path) // #nosec G304 -- the rows that the tests wrote
		if err != nil {
			return nil, err
		}
		row, err := decode[holes.Row](path, text)
		if err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("reading %q: the suite reported nothing", dir)
	}
	slices.SortFunc(all, order)
	return all, nil
}

func decode[T any](name string, text []byte) (T, error) {
	var v T
	if err := json.Unmarshal(text, &v, json.RejectUnknownMembers(true)); err != nil {
		return v, fmt.Errorf("reading %q: %w", name, err)
	}
	return v, nil
}

// encode gives equal rows equal bytes.
func encode(rows []holes.Row) ([]byte, error) {
	text, err := json.Marshal(rows, jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("writing rows: %w", err)
	}
	return append(text, '\n'), nil
}

// order is by host, version and name.
func order(a, b holes.Row) int {
	return cmp.Or(strings.Compare(a.Host, b.Host), holes.Compare(a.Version, b.Version), strings.Compare(a.ID, b.ID))
}

func name(r holes.Row) string { return r.Host + " " + r.Version + " " + r.ID }

// check says where the committed rows aren't what this run has shown.
func (r run) check(known, shown []holes.Row, out io.Writer) int {
	var findings []string
	find := func(row holes.Row, format string, args ...any) {
		findings = append(findings, name(row)+": "+fmt.Sprintf(format, args...))
	}
	left := map[string]holes.Row{}
	for _, row := range known {
		left[name(row)] = row
	}
	for _, row := range shown {
		was, ok := left[name(row)]
		delete(left, name(row))
		switch {
		case !ok:
			find(row, "new, and %s", row.State)
		case was != row:
			find(row, "is %+v, was %+v", row, was)
		case row.Nightly && !r.nightly:
			find(row, "marked nightly, but the run of each change shows it")
		}
	}
	unseen := 0
	for _, row := range known {
		if _, ok := left[name(row)]; !ok {
			continue
		}
		if r.partial || row.Nightly && !r.nightly {
			unseen++
			continue
		}
		find(row, "no test has shown it")
	}
	for _, text := range findings {
		fmt.Fprintln(out, "FAIL", text)
	}
	if len(findings) > 0 {
		fmt.Fprintf(out, "%s isn't what the suite has shown. If that is meant to be so, as root: make holes\n", list)
		return 1
	}
	fmt.Fprintf(out, "%d holes shown, as written down: %s", len(shown), counts(shown))
	if unseen > 0 {
		fmt.Fprintf(out, "; %d more are written down, which this run doesn't try", unseen)
	}
	fmt.Fprintln(out)
	return 0
}

func counts(rows []holes.Row) string {
	var parts []string
	for _, state := range []string{holes.Closed, holes.Compensated, holes.Open} {
		n := 0
		for _, row := range rows {
			if row.State == state {
				n++
			}
		}
		parts = append(parts, fmt.Sprintf("%d %s", n, state))
	}
	return strings.Join(parts, ", ")
}
