// Command holes keeps the list of known ways around a hook, and its table in
// docs/hosts.md, what the suite of real clients has last shown.
//
// Each attack of e2e/hosts that was tried and passed its test leaves a row, a
// file of its own, in a directory. With -rows this command holds that directory
// against internal/holes/holes.json: a row that is missing, new or different is a
// finding. With -write it writes list and table in place of complaining; without
// -rows it writes the table again from the list.
//
// It invents nothing. A row that is marked nightly is shown by a run of that size
// alone, so a smaller run may lack it; one that a smaller run does show may not
// be marked so. An ordinary user can't play the administrator, so its run may
// lack rows, and then the number of those is said.
//
// Exit codes: 0 the same or written, 1 findings, 2 usage, 3 could not finish.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"leaseguard.internal/internal/holes"
)

const (
	list = "internal/holes/holes.json"
	doc  = "docs/hosts.md"
)

func main() {
	r := run{nightly: os.Getenv("GUARD_SIZE") == "nightly", partial: os.Geteuid() != 0}
	os.Exit(r.main(os.Args[1:], os.Stdout, os.Stderr))
}

// run is the run of the suite that left the rows.
type run struct {
	nightly bool // it tried everything
	partial bool // it could not try what needs root
}

func (r run) main(args []string, out, errOut io.Writer) int {
	flags := flag.NewFlagSet("holes", flag.ContinueOnError)
	flags.SetOutput(errOut)
	rows := flags.String("rows", "", "`directory` with what a run of the suite reported")
	root := flags.String("root", ".", "`directory` of the module")
	write := flags.Bool("write", false, "write the list and the table from the rows")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 || *write && *rows == "" {
		fmt.Fprintln(errOut, "usage: holes [-root DIR] [-rows DIR [-write]]")
		return 2
	}
	code, err := r.do(*root, *rows, *write, out)
	if err != nil {
		fmt.Fprintf(errOut, "holes: %v\n", err)
		return 3
	}
	return code
}

func (r run) do(root, rows string, write bool, out io.Writer) (int, error) {
	text, err := os.ReadFile(filepath.Join(root, list)) // #nosec G304 -- of this repository
	if err != nil {
		return 0, err
	}
	known, err := decode[[]holes.Row](list, text)
	if err != nil {
		return 0, err
	}
	if rows == "" {
		return 0, writeTable(filepath.Join(root, doc), known)
	}
	shown, err := collect(rows)
	if err != nil {
		return 0, err
	}
	if !write {
		return r.check(known, shown, out), nil
	}
	if !r.nightly || r.partial {
		return 0, fmt.Errorf("writing %s: this run didn't show all rows; run as root: make holes", list)
	}
	text, err = encode(shown)
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(filepath.Join(root, list), text, 0o600); err != nil {
		return 0, err
	}
	fmt.Fprintf(out, "%d holes, %s\n", len(shown), counts(shown))
	return 0, writeTable(filepath.Join(root, doc), shown)
}
