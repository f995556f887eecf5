// Command vulngate reads govulncheck's JSON from stdin and decides whether the
// tree may be built with what it found.
//
// A finding of the Go standard library passes while an entry of the allow-list
// names it and its day has not passed: the toolchain of the build machines is
// not this repository's to update. A finding of any other module never passes.
// An entry that has expired fails even when nothing was found, so that the list
// can't rot. Exit codes: 0 clean, 1 findings, 2 usage, 3 could not finish.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"leaseguard.internal/internal/clock"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, clock.System{}.Wall())) }

func run(args []string, in io.Reader, out, errOut io.Writer, today time.Time) int {
	flags := flag.NewFlagSet("vulngate", flag.ContinueOnError)
	flags.SetOutput(errOut)
	path := flags.String("allow", "", "`file` with the accepted findings of the standard library")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 || *path == "" {
		fmt.Fprintln(errOut, "usage: govulncheck -format json ./... | vulngate -allow FILE")
		return 2
	}
	text, err := os.ReadFile(*path)
	if err != nil {
		fmt.Fprintf(errOut, "reading allow-list: %v\n", err)
		return 3
	}
	allowed, err := parseAllow(string(text))
	if err != nil {
		fmt.Fprintf(errOut, "reading allow-list %q: %v\n", *path, err)
		return 3
	}
	report, err := readReport(in)
	if err != nil {
		fmt.Fprintf(errOut, "reading govulncheck's output: %v\n", err)
		return 3
	}
	problems, notes := judge(report, allowed, today)
	for _, line := range notes {
		fmt.Fprintln(out, line)
	}
	for _, line := range problems {
		fmt.Fprintln(out, "FAIL", line)
	}
	if len(problems) > 0 {
		return 1
	}
	return 0
}
