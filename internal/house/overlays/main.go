// Command overlays proves that the tests would notice the loss of what they
// guard. Each entry of its table takes one defence out of one file, names the
// promise that this breaks, and the one test that must turn red:
//
//	go run ./internal/house/overlays [-all] [-only REGEXP] [-list]
//
// The change is laid over the file for the compiler alone (go test -overlay), so
// that nothing in the tree is touched; tests that build programs of their own
// build them with it too. First all those tests run without any change, and have
// to be green. A text that doesn't occur exactly once in its file is an error:
// the code has moved on, and the entry has to follow. Exit codes: 0 all as it
// has to be, 1 findings, 2 usage, 3 could not finish.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"

	"golang.org/x/sys/unix"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	flags := flag.NewFlagSet("overlays", flag.ContinueOnError)
	flags.SetOutput(errOut)
	only := flags.String("only", "", "take only the entries whose name fits `regexp`")
	all := flags.Bool("all", false, "take the slow entries too")
	list := flags.Bool("list", false, "print the table and run nothing")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return 2
	}
	fits, err := regexp.Compile(*only)
	if err != nil {
		_, _ = fmt.Fprintf(errOut, "overlays: -only: %v\n", err)
		return 2
	}
	var chosen []mutant
	for _, m := range table() {
		if fits.MatchString(m.name) && (*all || !m.slow) {
			chosen = append(chosen, m)
		}
	}
	if *list {
		for _, m := range chosen {
			_, _ = fmt.Fprintf(out, "%-28s %s\n%28s %s, %s\n", m.name, m.breaks, "", m.file, m.test)
		}
		return 0
	}
	r, err := newRunner(".", out)
	if err != nil {
		_, _ = fmt.Fprintln(errOut, "overlays:", err)
		return 3
	}
	defer r.close()
	problems, err := r.all(ctx, chosen)
	if err != nil {
		_, _ = fmt.Fprintln(errOut, "overlays:", err)
		return 3
	}
	for _, p := range problems {
		_, _ = fmt.Fprintln(out, "FAIL", p)
	}
	if len(problems) > 0 || len(chosen) == 0 {
		return 1
	}
	_, _ = fmt.Fprintf(out, "%d defences taken out, one at a time: each turned its test red\n", len(chosen))
	return 0
}
