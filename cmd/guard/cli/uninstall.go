package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"leaseguard.internal/internal/paths"
)

func (c Command) uninstall() *cobra.Command {
	var purge, yes, system, own bool
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "stop the broker and remove what guard keeps for this user",
		Long: `Uninstall stops the broker, which ends every lease, and removes guard.toml and the
sockets' directory. The audit and the store stay as they are unless --purge is
given. The programs themselves and the secrets that guard.toml names are yours.

With --system, as root, it takes the machine out of system mode: stops and
disables the units, and removes what guard init --system wrote, the copy of the
ZVM's secret with it. Packages are removed by the system's package manager.

With --user it removes what this user has of user mode, on a machine that was
switched to system mode since.

Sessions that still run stay gated: with no broker their gate denies every call.`,
		Example: "  guard uninstall\n  guard uninstall --purge --yes\n  guard uninstall --system",
		Args:    noArgs,
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			if system && own {
				return usagef("--system and --user are two installations; name one")
			}
			if system {
				return c.uninstallSystem(cmd.Context(), purge, yes)
			}
			p, err := c.operable(cmd.Context(), own)
			if err != nil {
				return err
			}
			if p.Mode == paths.System {
				return errors.New("this machine is in system mode, which root switches off: guard uninstall --system; what you have kept of user mode goes with: guard uninstall --user")
			}
			doomed := []string{p.Config, p.Config + oldSuffix, p.RunDir}
			if purge {
				doomed = append(doomed, p.StateDir)
			}
			if !yes {
				if err := c.confirm(doomed); err != nil {
					return err
				}
			}
			if err := c.stop(cmd.Context(), p); err != nil {
				return err
			}
			return c.remove(doomed)
		}),
	}
	cmd.Flags().BoolVar(&system, "system", false, "take the machine out of system mode; root")
	cmd.Flags().BoolVar(&own, "user", false, "what you have of user mode, also when the machine is in system mode")
	cmd.Flags().BoolVar(&purge, "purge", false, "remove the audit and the store too")
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return cmd
}

// confirm asks before anything is removed; without a terminal only --yes does.
func (c Command) confirm(doomed []string) error {
	return c.sure("nothing was removed", func() {
		fmt.Fprintln(c.Stderr, "this stops the broker and removes:")
		for _, path := range doomed {
			fmt.Fprintf(c.Stderr, "  %s\n", path)
		}
	})
}

// sure asks on the terminal whether to go on, after what it would mean was said.
func (c Command) sure(otherwise string, say func()) error {
	if !isTerminal(c.Stdin) {
		return usagef("nobody can be asked here; say that you mean it with --yes")
	}
	say()
	fmt.Fprint(c.Stderr, "go on? [y/N] ")
	answer, err := bufio.NewReader(c.Stdin).ReadString('\n')
	if err != nil || (answer != "y\n" && answer != "yes\n") {
		return errors.New(otherwise)
	}
	return nil
}

// remove takes away what is there and says so.
func (c Command) remove(doomed []string) error {
	for _, path := range doomed {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("removing %q: %w", path, err)
		}
		fmt.Fprintf(c.Stdout, "removed %q\n", path)
	}
	return nil
}
