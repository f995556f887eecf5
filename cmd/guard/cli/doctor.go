package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/version"
	"leaseguard.internal/internal/wire"
	host "leaseguard.internal/launcher/runtime"
)

// States of a finding. Warn is worth knowing and keeps nobody from working.
const (
	stateOK      = "ok"
	stateWarn    = "warn"
	stateFail    = "fail"
	stateUnknown = "unknown" // it could not be found out
)

// finding is one thing that was looked at.
type finding struct {
	Area  string `json:"area"`
	State string `json:"state"`
	Text  string `json:"text"`
	Fix   string `json:"fix"` // what helps; empty when nothing has to
}

// diagnosis is all that guard doctor prints.
type diagnosis struct {
	State       string          `json:"state"` // the worst of Checks
	Checks      []finding       `json:"checks"`
	Runtimes    []runtimeReport `json:"runtimes"`
	Environment []host.EnvTable `json:"environment"`
	EnvPass     []string        `json:"env_pass"` // session.env_pass: let through whatever the tables say
	Limits      []limit         `json:"limits"`   // what hooks don't close, on any machine of this kind
}

// doctor is one examination. It changes nothing.
type doctor struct {
	Command
	ctx    context.Context
	paths  paths.Paths
	config *config.Config // nil: it can't be read
	broker operator       // that asks the one that was there at first, and starts none
	status *wire.Status   // nil: no broker tells
	proofs []string       // digests of fresh proofs
	known  bool           // the broker has told proofs
	out    diagnosis
}

func (d *doctor) add(area, state, text, fix string) {
	d.out.Checks = append(d.out.Checks, finding{area, state, text, fix})
}

func (d *doctor) ok(area, text string)           { d.add(area, stateOK, text, "") }
func (d *doctor) warned(area, text, fix string)  { d.add(area, stateWarn, text, fix) }
func (d *doctor) fail(area, text, fix string)    { d.add(area, stateFail, text, fix) }
func (d *doctor) unknown(area, text, fix string) { d.add(area, stateUnknown, text, fix) }

func (c Command) doctor() *cobra.Command {
	var start, asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "look at everything that guard rests on, and say what would mend it",
		Long: `Doctor looks at guard's own programs and files, the broker, the ZVM and the
machines that guard.toml names, policy hooks and the policy server, and each
runtime on this machine: its version, how the gate is installed and proved, and
every known way around it. It changes nothing, and starts no broker unless
--start-broker is given.

Exit code 1: something is wrong (fail). 3: something could not be found out
(unknown). Inside a session it shows that session alone, and exits 1.`,
		Example: "  guard doctor\n  guard doctor --json",
		Args:    noArgs,
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			d := &doctor{Command: c, ctx: cmd.Context()}
			if err := d.examine(start); err != nil {
				return err
			}
			if asJSON {
				if err := c.printJSON(d.out); err != nil {
					return err
				}
			} else {
				c.printDiagnosis(c.Stdout, d.out)
			}
			return verdictOf(d.out.State)
		}),
	}
	cmd.Flags().BoolVar(&start, "start-broker", false, "start the broker if none runs, as other commands do")
	addJSON(cmd, &asJSON)
	return cmd
}

// verdictOf is a diagnosis as an exit code. The output has said it all.
func verdictOf(state string) error {
	switch state {
	case stateFail:
		return &failure{ExitRefused, errSilent}
	case stateUnknown:
		return &failure{ExitUnfinished, errSilent}
	}
	return nil
}

// examine looks at everything, the broker first: only it can say whether this is
// inside a session, where nobody is told more than that session's own.
func (d *doctor) examine(start bool) (err error) {
	d.out = diagnosis{Checks: []finding{}, Runtimes: []runtimeReport{}, Environment: host.EnvTables(), EnvPass: []string{}, Limits: []limit{}}
	if d.paths, err = d.Command.paths(); err != nil {
		return err
	}
	d.ok("guard", "version "+version.Version+", "+d.paths.Mode+" mode")
	if inside := d.askBroker(start); inside {
		d.insideSession()
	} else {
		for _, look := range []func(){
			d.programs, d.configuration, d.sockets, d.assurance, d.sudo, d.journal, d.inspect, d.sessions, d.runtimes, d.boundary,
		} {
			look()
		}
	}
	d.out.State = worst(d.out.Checks)
	return nil
}

func worst(found []finding) string {
	for _, state := range []string{stateFail, stateUnknown, stateWarn} {
		if slices.ContainsFunc(found, func(f finding) bool { return f.State == state }) {
			return state
		}
	}
	return stateOK
}

// askBroker asks for the status, and says whether this process is inside a
// session.
func (d *doctor) askBroker(start bool) (inside bool) {
	up, err := client.Running(d.ctx, d.paths)
	if err == nil && !up && start {
		if err = client.EnsureBroker(d.ctx, d.paths); errors.Is(err, client.ErrInsideSession) {
			return true
		}
		up = err == nil
	}
	switch {
	case err != nil:
		d.fail("broker", saidOnce(err), "guard broker start; what a broker said is in broker.log of the state directory")
		return d.env("GUARD_SESSION") != ""
	case !up:
		if d.outsideByEnv() != nil {
			return true
		}
		d.unknown("broker", "none runs, so that what only it knows was not looked at; guard launch starts it", "guard doctor --start-broker")
		return false
	}
	d.broker = dial(d.ctx, d.paths)
	d.status, err = d.broker.status()
	switch {
	case client.Refused(err, verdict.NotOperator):
		d.unknown("broker", "it tells operators alone: "+saidOnce(err), "run guard doctor as an operator too")
		return false
	case err != nil:
		d.fail("broker", saidOnce(err), restart(d.paths.Mode))
		return false
	}
	return slices.ContainsFunc(d.status.Sessions, func(s wire.Session) bool { return s.OnlySelf })
}

// insideSession shows what guard status shows there, and that this is all.
func (d *doctor) insideSession() {
	d.out.Environment = []host.EnvTable{}
	if d.status != nil {
		d.sessions()
	}
	d.fail("operator", string(verdict.NotOperator)+": this is inside a session, which sees itself alone", "run guard doctor from a terminal outside any session")
}

// saidOnce is an error in one line, cleaned.
func saidOnce(err error) string {
	return verdict.Cut(verdict.Clean(asWire(err).Message), verdict.MaxReason)
}
