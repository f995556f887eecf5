package cli

import (
	"fmt"
	"io"
	"strings"

	"leaseguard.internal/internal/verdict"
)

// printDiagnosis writes a line for each finding, with what helps below it.
func (c Command) printDiagnosis(w io.Writer, out diagnosis) {
	var rows [][]cell
	area := ""
	for _, f := range out.Checks {
		name := cell{}
		if f.Area != area {
			name = cell{verdict.Clean(f.Area), faint}
		}
		area = f.Area
		rows = append(rows, []cell{name, {f.State, stateOf(f.State)}, {text: verdict.Clean(f.Text)}})
		if f.Fix != "" {
			rows = append(rows, []cell{{}, {}, {text: "fix: " + verdict.Clean(f.Fix)}})
		}
	}
	c.table(w, rows)
	if len(out.Environment) > 0 {
		fmt.Fprintln(w)
		c.printEnvironment(w, out)
	}
	if len(out.Limits) > 0 {
		c.printLimits(w, out.Limits)
	}
}

func stateOf(state string) colour {
	switch state {
	case stateOK:
		return green
	case stateFail:
		return red
	}
	return yellow
}

// printEnvironment writes what becomes of the variables of a launch.
func (c Command) printEnvironment(w io.Writer, out diagnosis) {
	rows := [][]cell{header("ENVIRONMENT OF", "VARIABLES")}
	for _, t := range out.Environment {
		name := strings.Join(t.Runtimes, ", ")
		for _, list := range []struct {
			what  string
			names []string
		}{{"allowed", t.Allowed}, {"dropped", t.Dropped}, {"kept", t.Kept}, {"refused", t.Refused}, {"set", t.Set}} {
			what := list.what
			for _, line := range wrapped(list.names) {
				rows = append(rows, []cell{{text: name}, {text: what}, {text: line}})
				name, what = "", ""
			}
		}
	}
	for _, line := range wrapped(out.EnvPass) {
		rows = append(rows, []cell{{text: "session.env_pass"}, {text: "kept"}, {text: line}})
	}
	c.table(w, rows)
}

// wrapped puts names into lines of moderate length.
func wrapped(names []string) []string {
	const width = 88
	var lines []string
	line := ""
	for _, name := range names {
		name = verdict.Clean(name)
		if line != "" && len(line)+1+len(name) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += name
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
