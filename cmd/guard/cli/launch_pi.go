package cli

import "github.com/spf13/cobra"

func (c Command) launchPi() *cobra.Command {
	return c.launchAgent("pi", &cobra.Command{
		Use:   "pi [--resume ID] [--client FILE] [--no-cache] [--] [ARGS…]",
		Short: "launch Pi with the gate before every tool call",
		Long: `Pi finds Pi's own script and the node that runs it, gives Pi guard's extension
in sealed memory, has it prove that it asks the gate, and becomes it. ARGS reach
Pi byte for byte behind guard's own arguments; options that would load other code
into Pi are refused. guard's own flags come first; the first word that is none of
them begins ARGS. FILE is the script, such as .../dist/bundle/cli.js.

Pi loads no extension but guard's, and nothing of the project's .pi directory.
launch.pi_extensions in guard.toml names others, also Pi's own, such as
builtin:mcp. Of the environment, PI_*, NODE_* and JITI_* are dropped beside what is
dropped for all; session.env_pass lets a name through.`,
		Example: `  guard launch pi
  guard launch pi -- -p "tidy up the logs"
  guard launch pi -- --mode rpc
  guard launch pi -- --continue       # goes on with a conversation of Pi's`,
	})
}
