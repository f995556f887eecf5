// Bench measures what guard-gate adds to every tool call: from the start of the
// process to its end, against a static C program that does the same exchange.
//
//	go run ./bench [-rounds 300] [-max 7.5] [-node 30] [-hook 1.5] [-gate bin/guard-gate]
//
// Both are started in turn by a small C harness (vfork, exec, wait) and talk to
// a C broker that passes at once. Load of the machine meets both alike, so the
// figure that counts is the median of the ratios of each round.
//
// Then the gate runs beside the least hook in node, and in Python where that is,
// which do the same exchange and make sure of nothing.
//
// Last, calls that meet a trivial policy hook, beside that hook by itself: the gate
// becomes guard hooks run, which hashes, starts and judges it.
//
// The exit status is 1 when the gate takes more than -max times what the C
// program takes, node less than -node times what the gate takes, or a policy hook
// adds more than -hook times what its own start takes.
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
	limit := flags.Float64("max", 7.5, "highest median of the ratios to the C program")
	hook := flags.Float64("hook", 1.5, "highest median of what a trivial policy hook in Python adds to a call, in starts of that hook")
	node := flags.Float64("node", 30, "lowest median of the ratios of the node hook to the gate")
	gate := flags.String("gate", "bin/guard-gate", "the gate, as make build leaves it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	h, err := newHarness(*gate, stderr)
	if err != nil {
		return err
	}
	defer h.close()
	s, err := h.compare(*rounds, h.floor(), h.gate())
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "start to end of one hook, %d rounds, in turn\n%-22s %9s %9s\n", s.rounds, "", "median us", "p95 us")
	s.first.row(stdout, "static C (musl, -O2)")
	s.second.row(stdout, "guard-gate")
	fmt.Fprintf(stdout, "median of the rounds' ratios %.2f (quartiles %.2f to %.2f), at most %.1f\n", s.ratio, s.ratioLo, s.ratioHi, *limit)
	slow := s.ratio > *limit
	times, err := h.others(max(*rounds/10, 20), stdout)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "guard-gate is %.0f times quicker than the node hook, at least %.0f\n", times, *node)
	added, err := h.hooks(max(*rounds/10, 20), stdout)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "a trivial policy hook in Python costs a call %.2f starts of it, at most %.1f\n", added, *hook)
	if slow || times < *node || added > *hook {
		return errSlow
	}
	return nil
}

// harness starts programs in turn against a broker that passes everything.
type harness struct {
	dir, socket, uid, program string
	stderr                    io.Writer
	stop                      func()
}

// newHarness builds the C programs.
func newHarness(gate string, stderr io.Writer) (_ *harness, err error) {
	if _, err := os.Stat(gate); err != nil {
		return nil, fmt.Errorf("finding the gate: %w; run make build", err)
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, fmt.Errorf("making a directory for the C programs: %w", err)
	}
	h := &harness{dir: dir, socket: filepath.Join(dir, "broker.sock"), uid: strconv.Itoa(os.Getuid()), program: gate, stderr: stderr, stop: func() {}}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	for _, name := range []string{"floor", "farend", "spawn"} {
		if err := compile(dir, name); err != nil {
			return nil, err
		}
	}
	h.stop, err = farEnd(filepath.Join(dir, "farend"), h.socket)
	return h, err
}

func (h *harness) close() {
	h.stop()
	_ = os.RemoveAll(h.dir)
}

func (h *harness) floor() []string { return []string{filepath.Join(h.dir, "floor"), h.socket, h.uid} }

func (h *harness) gate() []string {
	return []string{h.program, "claude", "--socket", h.socket, "--broker-uid", h.uid, "--role", "decide"}
}

// compare starts both in turn.
func (h *harness) compare(rounds int, first, second []string) (summary, error) {
	args := append(append(append([]string{strconv.Itoa(rounds + warmUp)}, first...), "::"), second...)
	spawn := exec.Command(filepath.Join(h.dir, "spawn"), args...) //nolint:gosec // our own programs
	spawn.Stdin, spawn.Stderr = strings.NewReader(payload), h.stderr
	out, err := spawn.Output()
	if err != nil {
		return summary{}, fmt.Errorf("running the harness: %w", err)
	}
	return summarize(out, warmUp)
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
	stop = func() {}
	cmd := exec.Command(program, socket) //nolint:gosec // our own program
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return stop, fmt.Errorf("starting the far end: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return stop, fmt.Errorf("starting the far end: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return stop, fmt.Errorf("starting the far end: %w", err)
	}
	stop = func() { _ = stdin.Close(); _ = cmd.Wait() }
	if _, err := io.ReadFull(stdout, make([]byte, 1)); err != nil {
		return stop, fmt.Errorf("waiting for the far end to listen: %w", err)
	}
	return stop, nil
}

// summary is what a run says.
type summary struct {
	rounds                  int
	first, second           times
	ratio, ratioLo, ratioHi float64 // of second to first: median and quartiles of the rounds' own
}

// times are those of one program, in microseconds.
type times struct{ median, p95 float64 }

func (t times) row(w io.Writer, name string) {
	fmt.Fprintf(w, "%-22s %9.0f %9.0f\n", name, t.median, t.p95)
}

// summarize reads the harness's lines, but for the first skip of them.
func summarize(lines []byte, skip int) (summary, error) {
	var first, second, ratio []float64
	for s := bufio.NewScanner(bytes.NewReader(lines)); s.Scan(); skip-- {
		var a, b int64
		if n, err := fmt.Sscanf(s.Text(), "%d %d", &a, &b); n != 2 || err != nil || a <= 0 || b <= 0 {
			return summary{}, fmt.Errorf("reading the harness's line %q: want two times in ns", s.Text())
		}
		if skip <= 0 {
			first, second, ratio = append(first, float64(a)/1e3), append(second, float64(b)/1e3), append(ratio, float64(b)/float64(a))
		}
	}
	if len(ratio) == 0 {
		return summary{}, errors.New("the harness measured nothing")
	}
	return summary{
		len(ratio), times{quantile(first, .5), quantile(first, .95)}, times{quantile(second, .5), quantile(second, .95)},
		quantile(ratio, .5), quantile(ratio, .25), quantile(ratio, .75),
	}, nil
}

// quantile sorts values and returns the one below which a share q of them lies.
func quantile[T cmp.Ordered](values []T, q float64) T {
	slices.Sort(values)
	return values[min(int(q*float64(len(values))), len(values)-1)]
}
