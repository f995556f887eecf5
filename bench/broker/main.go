// Bench/broker measures what the broker's promises cost, each beside the same
// work without them:
//
//		go run ./bench/broker [-check] [-rounds 5] [-broker bin/guard-broker]
//
//	  - authorize: one read call (dial, one request, close), with everything that
//	    proves who calls, beside an echo server of the same frames that asks
//	    nothing. The client is what the broker takes for the installed gate: a
//	    child of a session's anchor.
//	  - durable: changing calls that pass with their record on a disk, beside the
//	    same with the state directory in memory, where a sync costs nothing. The
//	    ZVM is stubbed at the broker's Checkpoints.
//	  - audit: the audit writer alone beside a loop of append and fdatasync.
//
// Servers and clients are processes of their own. What is compared runs in turn,
// in slices of a few dozen milliseconds, so that the machine's other load meets
// both; the figure is the median of the rounds' ratios. With -check the exit
// status is 1 when a limit isn't met.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"leaseguard.internal/internal/client"
)

// errSlow says that the measurement went well and its result is bad.
var errSlow = errors.New("a limit is not met")

// Limits of the ratios: authorize at most, the others at least.
const (
	maxAuthorize = 2.0
	minDurable   = 0.7
	minAudit1    = 0.5
	minAudit64   = 10.0
)

func main() {
	err := run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errSlow):
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench/broker:", err)
		os.Exit(3)
	}
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench/broker", flag.ContinueOnError)
	flags.SetOutput(stderr)
	check := flags.Bool("check", false, "exit 1 when a limit is not met")
	rounds := flags.Int("rounds", 5, "rounds of each measurement")
	program := flags.String("broker", "bin/guard-broker", "the broker, as make build leaves it")
	only := flags.String("only", "", "measure nothing but authorize, durable or audit")
	role := flags.String("role", "", "what a process of the measurement is: for its own use")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch *role {
	case "broker":
		return serveStubbed(stdin)
	case "echo":
		return serveEcho(flags.Arg(0), stdin)
	case "host":
		return host(stdin, stdout)
	case "client":
		return drive(stdin, stdout)
	}
	r, err := measure(*program, *rounds, *only, stdout)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, r)
	if *check && !r.met() {
		return errSlow
	}
	return nil
}

// ratios is the outcome of a run.
type ratios struct{ authorize, durable, audit1, audit64 float64 }

// String is the last line.
func (r ratios) String() string {
	return fmt.Sprintf("ratio authorize=%.2f durable=%.2f audit1=%.2f audit64=%.2f", r.authorize, r.durable, r.audit1, r.audit64)
}

func (r ratios) met() bool {
	return r.authorize <= maxAuthorize && r.durable >= minDurable && r.audit1 >= minAudit1 && r.audit64 >= minAudit64
}

func measure(program string, rounds int, only string, out io.Writer) (r ratios, err error) {
	rig, err := newRig(program)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, rig.close()) }()
	fmt.Fprintf(out, "medians of %d rounds; authorize at most %.1f, durable at least %.1f, audit at least %.1f (1 writer) and %.0f (64)\n",
		rounds, maxAuthorize, minDurable, minAudit1, minAudit64)
	for _, m := range []struct {
		name string
		run  func() error
	}{
		{"authorize", func() (err error) { r.authorize, err = authorize(rig, rounds, out); return err }},
		{"durable", func() (err error) { r.durable, err = durable(rig, rounds, out); return err }},
		{"audit", func() (err error) { r.audit1, r.audit64, err = auditWriter(rig.dir, rounds, out); return err }},
	} {
		if only != "" && only != m.name {
			continue
		}
		if err := m.run(); err != nil {
			return r, fmt.Errorf("measuring %s: %w", m.name, err)
		}
	}
	return r, nil
}

// gateName is the name under which a broker looks for the installed gate.
func gateName() (string, error) {
	programs, err := client.Siblings()
	return programs.Gate, err
}
