package cli

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"leaseguard.internal/internal/catalogimport"
	"leaseguard.internal/internal/verdict"
)

func (c Command) catalogCheck() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check [NAME=FILE...]",
		Short: "compare the catalog in guard.toml with tool lists",
		Long: `Check compares the [[tool]] entries of guard.toml with the tools that servers
list: tools without an entry, entries without a tool, names and prefixes that
stand for several, a vm_arg that the tool doesn't have, and read_only where the
server itself says that the tool changes something. Entries for a host's own
tools are judged without a list too. Entries of servers whose list isn't given
are named as unchecked.

Exit code 1: there is a finding.`,
		Example: `  guard catalog check vsphere=tools.json files=files.json
  guard catalog check --json`,
		RunE: run(func(_ *cobra.Command, args []string) error {
			lists, err := c.sources(args)
			if err != nil {
				return err
			}
			for _, s := range lists {
				if s.Guard != nil {
					return usagef("%s is a rewind-guard configuration, no tool list; see: guard catalog import", verdict.Object(s.File))
				}
			}
			cfg, path, err := c.guardToml()
			if err != nil {
				return err
			}
			report, err := catalogimport.Check(cfg.Tools, lists, ownTools())
			if err != nil {
				return err
			}
			if asJSON {
				err = c.printJSON(report)
			} else {
				c.printCheck(c.Stdout, path, report)
			}
			if err == nil && len(report.Findings) > 0 {
				return &failure{ExitRefused, errSilent}
			}
			return err
		}),
	}
	addJSON(cmd, &asJSON)
	return cmd
}

func (c Command) printCheck(w io.Writer, path string, r *catalogimport.Report) {
	fmt.Fprintf(w, "%d entries of %s, %d tools of servers\n", r.Entries, verdict.Object(path), r.Tools)
	if len(r.Findings) > 0 {
		rows := [][]cell{header("FINDING", "LINE", "OF", "WHAT")}
		for _, f := range r.Findings {
			line, of := "", f.Tool
			if f.Line > 0 {
				line = strconv.Itoa(f.Line)
			}
			if of == "" {
				of = f.Entry
			}
			if of != "" {
				of = verdict.Object(of)
			}
			rows = append(rows, []cell{{string(f.Kind), yellow}, {text: line}, {text: of}, {text: verdict.Clean(f.Text)}})
		}
		c.table(w, rows)
	}
	if len(r.Unchecked) > 0 {
		fmt.Fprintf(w, "unchecked, since their server's list wasn't given: %s\n", objects(r.Unchecked))
	}
}
