// Bench measures what guard-gate adds to every tool call: from the start of the
// process to its end, against a static C program that does the same exchange.
//
//	go run ./bench [-rounds 300] [-max 7.5] [-gate bin/guard-gate]
//
// Both are started in turn by a small C harness (vfork, exec, wait) and talk to
// a C broker that passes at once. Load of the machine meets both alike, so the
// figure that counts is the median of the ratios of each round. The exit status
// is 1 when it is above -max.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// errSlow says that the measurement went well and its result is bad.
var errSlow = errors.New("the gate is too slow")

// warmUp rounds aren't counted: they load programs into the page cache.
const warmUp = 20

const payload = `{"session_id":"3f1c","transcript_path":"/home/u/.claude/projects/p/3f1c.jsonl","cwd":"/home/u/p",` +
	`"permission_mode":"default","hook_event_name":"PreToolUse","tool_name":"Bash",` +
	`"tool_input":{"command":"make deploy","description":"Deploy"},"tool_use_id":"toolu_01"}`

func main() {
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errSlow):
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(3)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	rounds := flags.Int("rounds", 300, "starts of each program")
	limit := flags.Float64("max", 7.5, "highest median of the ratios")
	gate := flags.String("gate", "bin/guard-gate", "the gate, as make build leaves it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	out, err := measure(*gate, *rounds+warmUp, stderr)
	if err != nil {
		return err
	}
	s, err := summarize(out, warmUp)
	if err != nil {
		return err
	}
	s.print(stdout, *limit)
	if s.ratio > *limit {
		return errSlow
	}
	return nil
}

// measure builds the C programs and returns the harness's lines.
func measure(gate string, rounds int, stderr io.Writer) ([]byte, error) {
	if _, err := os.Stat(gate); err != nil {
		return nil, fmt.Errorf("finding the gate: %w; run make build", err)
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, fmt.Errorf("making a directory for the C programs: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, name := range []string{"floor", "farend", "spawn"} {
		if err := compile(dir, name); err != nil {
			return nil, err
		}
	}
	socket := filepath.Join(dir, "broker.sock")
	stop, err := farEnd(filepath.Join(dir, "farend"), socket)
	if err != nil {
		return nil, err
	}
	defer stop()
	uid := strconv.Itoa(os.Getuid())
	spawn := exec.Command(filepath.Join(dir, "spawn"), strconv.Itoa(rounds), filepath.Join(dir, "floor"), socket, uid, //nolint:gosec // our own programs
		"::", gate, "claude", "--socket", socket, "--broker-uid", uid, "--role", "decide")
	spawn.Stdin, spawn.Stderr = strings.NewReader(payload), stderr
	out, err := spawn.Output()
	if err != nil {
		return nil, fmt.Errorf("running the harness: %w", err)
	}
	return out, nil
}

func compile(dir, name string) error {
	source := filepath.Join("bench", "c", name+".c")
	cc := exec.Command("musl-gcc", "-static", "-O2", "-s", "-Wall", "-Werror", "-o", filepath.Join(dir, name), source) //nolint:gosec // our own source
	if out, err := cc.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling bench/c/%s.c: %w; musl-gcc is in the package musl-tools\n%s", name, err, out)
	}
	return nil
}

// farEnd starts the broker that passes everything.
func farEnd(program, socket string) (stop func(), err error) {
	cmd := exec.Command(program, socket) //nolint:gosec // our own program
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the far end: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the far end: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the far end: %w", err)
	}
	stop = func() { _ = stdin.Close(); _ = cmd.Wait() }
	if _, err := io.ReadFull(stdout, make([]byte, 1)); err != nil {
		stop()
		return nil, fmt.Errorf("waiting for the far end to listen: %w", err)
	}
	return stop, nil
}

// summary is what a run says.
type summary struct {
	rounds                  int
	floor, floor95          float64 // microseconds
	gate, gate95            float64
	ratio, ratioLo, ratioHi float64 // median and quartiles of the rounds' own ratios
}

// summarize reads the harness's lines, but for the first skip of them.
func summarize(lines []byte, skip int) (summary, error) {
	var floor, gate, ratio []float64
	for s := bufio.NewScanner(bytes.NewReader(lines)); s.Scan(); skip-- {
		var a, b int64
		if n, err := fmt.Sscanf(s.Text(), "%d %d", &a, &b); n != 2 || err != nil || a <= 0 || b <= 0 {
			return summary{}, fmt.Errorf("reading the harness's line %q: want two times in ns", s.Text())
		}
		if skip <= 0 {
			floor, gate, ratio = append(floor, float64(a)/1e3), append(gate, float64(b)/1e3), append(ratio, float64(b)/float64(a))
		}
	}
	if len(ratio) == 0 {
		return summary{}, errors.New("the harness measured nothing")
	}
	return summary{
		len(ratio), quantile(floor, .5), quantile(floor, .95), quantile(gate, .5), quantile(gate, .95),
		quantile(ratio, .5), quantile(ratio, .25), quantile(ratio, .75),
	}, nil
}

// quantile sorts values and returns the one below which a share q of them lies.
func quantile[T cmp.Ordered](values []T, q float64) T {
	slices.Sort(values)
	return values[min(int(q*float64(len(values))), len(values)-1)]
}

func (s summary) print(w io.Writer, limit float64) {
	fmt.Fprintf(w, "start to end of one hook, %d rounds, in turn\n", s.rounds)
	fmt.Fprintf(w, "%-22s %9s %9s\n", "", "median us", "p95 us")
	fmt.Fprintf(w, "%-22s %9.0f %9.0f\n", "static C (musl, -O2)", s.floor, s.floor95)
	fmt.Fprintf(w, "%-22s %9.0f %9.0f\n", "guard-gate", s.gate, s.gate95)
	fmt.Fprintf(w, "median of the rounds' ratios %.2f (quartiles %.2f to %.2f), at most %.1f\n", s.ratio, s.ratioLo, s.ratioHi, limit)
}
