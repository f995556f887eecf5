package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"leaseguard.internal/internal/hookrun"
)

// hooksRun is what the gate becomes. Nobody else starts it, so that help doesn't
// list it.
func (c Command) hooksRun() *cobra.Command {
	return &cobra.Command{
		Use:    "run",
		Short:  "run a call's policy hooks; guard-gate becomes this",
		Hidden: true,
		Args:   noArgs,
		RunE:   run(func(*cobra.Command, []string) error { return &failure{RunHooks(), errSilent} }),
	}
}

// RunHooks is "guard hooks run" and returns its exit status. Main calls it before
// it sets up the command line, which takes as long as a small hook.
func RunHooks() int {
	status, err := hookrun.Main(os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, sentence(err.Error(), ""))
	}
	return status
}
