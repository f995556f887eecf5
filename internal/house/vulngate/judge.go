package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// stdlib is the module name that govulncheck gives to the standard library.
const stdlib = "stdlib"

// entry is one line of the allow-list.
type entry struct {
	id     string
	until  time.Time // last day, UTC
	reason string
}

// parseAllow reads the allow-list. A line that can't be read is an error: it
// may have been meant to end something.
func parseAllow(text string) (map[string]entry, error) {
	entries := map[string]entry{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 3 {
			return nil, fmt.Errorf("line %d: want id, day and reason, got %q", i+1, line)
		}
		until, err := time.Parse(time.DateOnly, fields[1])
		if err != nil {
			return nil, fmt.Errorf("line %d: day %q is not of the form 2026-12-31", i+1, fields[1])
		}
		if _, twice := entries[fields[0]]; twice {
			return nil, fmt.Errorf("line %d: %s is listed twice", i+1, fields[0])
		}
		entries[fields[0]] = entry{fields[0], until, strings.Join(fields[2:], " ")}
	}
	return entries, nil
}

// frame is one step of the path from this module to the weak spot; the first
// frame of a trace is the weak spot itself.
type frame struct {
	Module   string `json:"module"`
	Version  string `json:"version"`
	Package  string `json:"package"`
	Function string `json:"function"`
}

type finding struct {
	OSV   string  `json:"osv"`
	Fixed string  `json:"fixed_version"`
	Trace []frame `json:"trace"`
}

type message struct {
	Config *struct {
		Database string `json:"db"`
		Go       string `json:"go_version"`
	} `json:"config"`
	Finding *finding `json:"finding"`
}

// report is what counts of govulncheck's output: per id one finding that
// reaches the code, and which data base said so.
type report struct {
	config   string
	findings map[string]finding
}

func readReport(in io.Reader) (report, error) {
	r := report{findings: map[string]finding{}}
	dec := jsontext.NewDecoder(in, jsontext.AllowDuplicateNames(true))
	for {
		var m message
		err := json.UnmarshalDecode(dec, &m)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return report{}, err
		}
		if m.Config != nil {
			r.config = m.Config.Go + ", " + m.Config.Database
		}
		if m.Finding != nil && reaches(*m.Finding) {
			r.findings[m.Finding.OSV] = *m.Finding
		}
	}
	if r.config == "" {
		return report{}, errors.New("no configuration message: govulncheck did not run to its end")
	}
	return r, nil
}

// reaches says whether a finding counts: one of the standard library when a
// function of ours leads to the weak spot, one of a dependency already when its
// package is linked.
func reaches(f finding) bool {
	if len(f.Trace) == 0 {
		return true // nothing known: the safe side
	}
	if f.Trace[0].Module == stdlib {
		return f.Trace[0].Function != ""
	}
	return f.Trace[0].Package != ""
}

// judge sorts what was found into what fails and what is only said.
func judge(r report, allowed map[string]entry, today time.Time) (problems, notes []string) {
	notes = append(notes, "govulncheck: "+r.config)
	for _, id := range slices.Sorted(maps.Keys(r.findings)) {
		f := r.findings[id]
		text := describe(f)
		e, listed := allowed[id]
		switch {
		case len(f.Trace) == 0 || f.Trace[0].Module != stdlib:
			problems = append(problems, text+": update the module; only findings of the standard library can be listed")
		case !listed:
			problems = append(problems, text+": not in the allow-list")
		default:
			notes = append(notes, fmt.Sprintf("allowed until %s: %s", e.until.Format(time.DateOnly), text))
		}
	}
	day := today.UTC().Truncate(24 * time.Hour)
	for _, id := range slices.Sorted(maps.Keys(allowed)) {
		e := allowed[id]
		if day.After(e.until) {
			problems = append(problems, fmt.Sprintf("%s: its entry ended on %s (%s)", id, e.until.Format(time.DateOnly), e.reason))
		}
		if _, found := r.findings[id]; !found {
			notes = append(notes, id+": listed, but not found any more; drop the entry")
		}
	}
	return problems, notes
}

func describe(f finding) string {
	if len(f.Trace) == 0 {
		return f.OSV
	}
	spot := f.Trace[0]
	name := spot.Package
	if spot.Function != "" {
		name += "." + spot.Function
	}
	fixed := f.Fixed
	if fixed == "" {
		fixed = "no version yet"
	}
	return fmt.Sprintf("%s %s %s@%s (fixed in %s)", f.OSV, name, spot.Module, spot.Version, fixed)
}
