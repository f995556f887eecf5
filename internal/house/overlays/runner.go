package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
)

// mutant is one defence taken out.
type mutant struct {
	name   string
	breaks string // the promise
	file   string // from the module's root
	old    string // stands there exactly once
	new    string
	pkg    string // ./broker
	test   string // one top-level test
	tags   string
	slow   bool // its test starts programs: for the night
}

// runner runs tests of the module at root with and without mutants.
type runner struct {
	root string
	dir  string // for the changed files
	out  io.Writer
}

// jobs is how many tests are built and run at once.
const jobs = 2

func newRunner(root string, out io.Writer) (*runner, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "guard-overlays-")
	if err != nil {
		return nil, err
	}
	return &runner{root: root, dir: dir, out: out}, nil
}

func (r *runner) close() { _ = os.RemoveAll(r.dir) }

// all answers what is wrong with the mutants or with the tests, in the order of
// the table. An error means that it isn't known.
func (r *runner) all(ctx context.Context, mutants []mutant) ([]string, error) {
	if problems := r.drift(mutants); len(problems) > 0 {
		return problems, nil
	}
	if problems, err := r.green(ctx, mutants); err != nil || len(problems) > 0 {
		return problems, err
	}
	found, errs := make([]string, len(mutants)), make([]error, len(mutants))
	var work sync.WaitGroup
	slots := make(chan struct{}, jobs)
	for i, m := range mutants {
		work.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			found[i], errs[i] = r.red(ctx, m)
		})
	}
	work.Wait()
	return slices.DeleteFunc(found, func(s string) bool { return s == "" }), errors.Join(errs...)
}

// drift finds the entries whose text no longer stands in its file.
func (r *runner) drift(mutants []mutant) []string {
	var problems []string
	for _, m := range mutants {
		if _, err := r.changed(m); err != nil {
			problems = append(problems, err.Error())
		}
	}
	return problems
}

// changed is the mutant's file with the change made.
func (r *runner) changed(m mutant) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(r.root, m.file)) // #nosec G304 -- a file of the table
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	if n := bytes.Count(text, []byte(m.old)); n != 1 || m.old == m.new {
		return nil, fmt.Errorf("%s: its text stands %d times in %s, want once: the code has moved on, and table.go has to follow", m.name, n, m.file)
	}
	return bytes.Replace(text, []byte(m.old), []byte(m.new), 1), nil
}

// green runs all the tests without any change.
func (r *runner) green(ctx context.Context, mutants []mutant) ([]string, error) {
	type group struct{ pkg, tags string }
	groups := map[group][]string{}
	var order []group
	for _, m := range mutants {
		g := group{m.pkg, m.tags}
		if groups[g] == nil {
			order = append(order, g)
		}
		if !slices.Contains(groups[g], m.test) {
			groups[g] = append(groups[g], m.test)
		}
	}
	var problems []string
	for _, g := range order {
		seen, err := r.test(ctx, g.pkg, g.tags, strings.Join(groups[g], "|"), "")
		if err != nil {
			return nil, err
		}
		for _, test := range groups[g] {
			if got := seen.tests[test]; got != "pass" {
				problems = append(problems, fmt.Sprintf("%s in %s without any change: %q, want pass\n%s", test, g.pkg, got, seen.output))
			}
		}
	}
	return problems, nil
}

// red runs one mutant's test with its change.
func (r *runner) red(ctx context.Context, m mutant) (problem string, err error) {
	overlay, err := r.overlay(m)
	if err != nil {
		return "", err
	}
	seen, err := r.test(ctx, m.pkg, m.tags, m.test, overlay)
	if err != nil {
		return "", err
	}
	got := seen.tests[m.test]
	switch {
	case seen.unbuilt:
		return fmt.Sprintf("%s: it doesn't compile\n%s", m.name, seen.output), nil
	case got == "":
		return fmt.Sprintf("%s: %s didn't run\n%s", m.name, m.test, seen.output), nil
	case got != "fail":
		return fmt.Sprintf("%s: %s in %s: %s, although this is broken: %s", m.name, m.test, m.pkg, got, m.breaks), nil
	}
	_, _ = fmt.Fprintf(r.out, "red  %-28s %s\n", m.name, m.test)
	return "", nil
}

// overlay writes the changed file and the list that the compiler takes.
func (r *runner) overlay(m mutant) (string, error) {
	text, err := r.changed(m)
	if err != nil {
		return "", err
	}
	file, list := filepath.Join(r.dir, m.name+".go"), filepath.Join(r.dir, m.name+".json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", err
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(r.root, m.file): file}})
	if err != nil {
		return "", err
	}
	return list, os.WriteFile(list, replace, 0o600)
}

// outcome is what a run of tests came to.
type outcome struct {
	unbuilt bool
	tests   map[string]string // of top-level tests: pass, fail, skip
	output  string
}

// test runs the tests that fit the names. GOFLAGS bears the overlay, so that a
// test which builds programs builds them with it.
func (r *runner) test(ctx context.Context, pkg, tags, names, overlay string) (outcome, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-timeout=300s", "-tags="+tags, "-run=^("+names+")$", pkg) // #nosec G204 -- of the table
	cmd.Dir, cmd.Env = r.root, os.Environ()
	if overlay != "" {
		cmd.Env = append(cmd.Env, "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	}
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return outcome{}, err
	}
	if err := ctx.Err(); err != nil {
		return outcome{}, err
	}
	return read(out)
}

// read takes what go test -json said.
func read(out []byte) (outcome, error) {
	o := outcome{tests: map[string]string{}}
	for line := range bytes.Lines(out) {
		var ev struct{ Action, Test, Output string }
		if err := json.Unmarshal(line, &ev); err != nil {
			return o, fmt.Errorf("reading what go test said: %w: %.200q", err, line)
		}
		switch ev.Action {
		case "build-fail":
			o.unbuilt = true
		case "pass", "fail", "skip":
			// A test program that runs itself again reports twice.
			if had := o.tests[ev.Test]; had != "fail" && (had == "" || ev.Action != "skip") {
				o.tests[ev.Test] = ev.Action
			}
		}
		o.output += ev.Output
	}
	if len(o.tests) == 0 && !o.unbuilt {
		return o, errors.New("go test said nothing; see: go vet of the package")
	}
	return o, nil
}
