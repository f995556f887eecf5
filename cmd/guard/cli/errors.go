package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// failure is an error with the exit code that it ends the program with.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// errSilent ends a command whose output has said everything already.
var errSilent = errors.New("")

// usagef is an error of the command line.
func usagef(format string, args ...any) error {
	return &failure{ExitUsage, fmt.Errorf(format, args...)}
}

// runE is what a command does; its errors get their exit codes from code.
type runE func(cmd *cobra.Command, args []string) error

// run adapts f for cobra. An error that has no exit code yet gets one here, so
// that what cobra itself complains of can be told apart: that is usage.
func run(f runE) runE {
	return func(cmd *cobra.Command, args []string) error {
		err := f(cmd, args)
		var coded *failure
		var refused *wire.Error
		switch {
		case err == nil || errors.As(err, &coded):
			return err
		case errors.As(err, &refused) || errors.Is(err, client.ErrInsideSession):
			return &failure{ExitRefused, err}
		}
		return &failure{ExitUnfinished, err}
	}
}

// report prints err for people, with --json also for programs, and returns the
// exit code.
func (c Command) report(cmd *cobra.Command, err error) int {
	if err == nil {
		return ExitDone
	}
	var coded *failure
	if !errors.As(err, &coded) {
		coded = &failure{ExitUsage, err}
	}
	if errors.Is(err, errSilent) {
		return coded.code
	}
	refusal := asWire(err)
	for _, line := range saidBy(err) {
		fmt.Fprintln(c.Stderr, sentence(line, refusal.Code))
	}
	if coded.code == ExitUsage {
		fmt.Fprintf(c.Stderr, "Try: %s --help\n", cmd.CommandPath())
	}
	if flag := cmd.Flags().Lookup("json"); flag != nil && flag.Value.String() == "true" {
		_ = c.printJSON(struct {
			Error *wire.Error `json:"error"`
		}{refusal})
	}
	return coded.code
}

// asWire gives every error the form that programs read: a refusal keeps its
// code, anything else has none. The message doesn't repeat the code.
func asWire(err error) *wire.Error {
	w := &wire.Error{}
	var refused *wire.Error
	switch {
	case errors.As(err, &refused):
		w.Code = refused.Code
	case errors.Is(err, client.ErrInsideSession):
		w.Code = string(verdict.NotOperator)
	}
	said := saidBy(err)
	for i, line := range said {
		said[i] = strings.TrimPrefix(strings.TrimPrefix(line, "guard: "), w.Code+": ")
	}
	w.Message = strings.Join(said, "\n")
	return w
}

// faults are several things that are wrong at once.
type faults []error

func (f faults) Error() string { return errors.Join(f...).Error() }

// saidBy is what err says, cleaned: one line, but one for each fault of a
// configuration, which people correct one by one.
func saidBy(err error) []string {
	if !errors.As(err, new(*client.ConfigError)) && !errors.As(err, new(faults)) {
		return []string{verdict.Clean(err.Error())}
	}
	said := strings.Split(err.Error(), "\n")
	for i, line := range said {
		said[i] = verdict.Clean(line)
	}
	return said
}

// sentence is one line with guard's name before it and a refusal's code.
func sentence(line, code string) string {
	text := strings.TrimPrefix(line, "guard: ")
	if code != "" && !strings.Contains(text, code+": ") {
		text = code + ": " + text
	}
	return "guard: " + text
}

// printJSON writes v as indented JSON and a newline.
func (c Command) printJSON(v any) error {
	text, err := json.Marshal(v, indent)
	if err != nil {
		return fmt.Errorf("encoding JSON: %w", err)
	}
	_, err = c.Stdout.Write(append(audit.Escape(text), '\n')) // names in it are other people's
	return err
}
