package cli

import (
	"errors"
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
		RunE: run(func(*cobra.Command, []string) error {
			status, err := hookrun.Main(os.Stdout, os.Stderr)
			switch {
			case errors.Is(err, hookrun.ErrAlone):
				return usagef("%w", err)
			case err != nil:
				return &failure{status, err}
			case status != ExitDone:
				return &failure{status, errSilent}
			}
			return nil
		}),
	}
}
