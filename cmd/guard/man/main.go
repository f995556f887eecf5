// Command man writes the manual pages: guard(1) and one for each of its commands,
// guard-broker(8), guard-gate(8) and guard.toml(5).
//
// What they say stands in one place already: cobra's help of each command, the
// broker's own --help, docs/cli.md and docs/configuration.md. Only what guard-gate
// and the broker do beside that is written here, in Markdown. No page has a date,
// so that equal sources give equal bytes; make gen-check holds the pages to be
// what this command writes. The packages ship them.
//
//	go run ./cmd/guard/man -root .
//
// It removes pages that nothing is about any more. See roff.go for the writer,
// markdown.go for the part of Markdown that it understands.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

//go:generate go run . -root ../../..

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, errOut io.Writer) int {
	flags := flag.NewFlagSet("man", flag.ContinueOnError)
	flags.SetOutput(errOut)
	root := flags.String("root", ".", "`directory` of the module")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		fmt.Fprintln(errOut, "usage: man [-root DIR]")
		return 2
	}
	pages, err := all(*root)
	if err == nil {
		err = put(filepath.Join(*root, "packaging", "man"), pages)
	}
	if err != nil {
		fmt.Fprintf(errOut, "man: %v\n", err)
		return 3
	}
	return 0
}

// put makes dir hold these pages and no others.
func put(dir string, pages map[string]string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	there, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range there {
		if _, ok := pages[f.Name()]; !ok {
			if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
				return err
			}
		}
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
