package cli

import "github.com/spf13/cobra"

func (c Command) hooks() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hooks",
		Short: "policy hooks: programs of yours that judge each call too",
		Long: `Policy hooks are programs that may deny a call, and can never allow one: the
user's stand in hooks.json beside guard.toml, a project's in .guard/hooks.json of
the directory that a session is launched in. What runs is what an operator has
trusted, byte by byte.`,
		Example: "  guard hooks list\n  guard hooks trust no-push\n  guard hooks test no-push",
	}
	group(cmd)
	cmd.AddCommand(c.hooksList(), c.hooksTrust(), c.hooksRevoke(), c.hooksTest(), c.hooksRun())
	return cmd
}

// oneHook wants one argument, a policy hook.
func oneHook(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("name one policy hook; see: guard hooks list")
	}
	return nil
}
