package cli

import "github.com/spf13/cobra"

func (c Command) launchCodex() *cobra.Command {
	return c.launchAgent("codex", &cobra.Command{
		Use:   "codex [--resume ID] [--client FILE] [--no-cache] [--] [ARGS…]",
		Short: "launch Codex with the gate before every tool call",
		Long: `Codex finds the native program of Codex behind npm's script, installs the gate in
it, has it prove that it asks the gate, and becomes it. ARGS reach the client byte
for byte behind guard's own arguments; options, configuration keys and features
that would silence the gate, and commands that start agents elsewhere, are refused.
guard's own flags come first; the first word that is none of them begins ARGS.

The hooks stand in guard's arguments, or in system mode in an administrator's
requirements.toml. Hooks and plugins of the user's own are switched off, what a
project says is not loaded, and commands get no terminal of their own. Of the
environment only a short list of names reaches the client (session.env_pass).`,
		Example: `  guard launch codex
  guard launch codex -- exec --sandbox workspace-write "tidy up the logs"
  guard launch codex -- resume --last     # goes on with a conversation of the client's`,
	})
}
