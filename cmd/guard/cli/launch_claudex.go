package cli

import "github.com/spf13/cobra"

func (c Command) launchClaudex() *cobra.Command {
	cmd := c.launchAgent("claudex", &cobra.Command{
		Use:   "claudex [--config-dir DIR] [--resume ID] [--client FILE] [--no-cache] [--] [ARGS…]",
		Short: "launch Claude Code with a configuration directory of its own",
		Long: `Claudex is Claude Code with log-in, history and settings of its own, in DIR: by
default the directory that CLAUDE_CONFIG_DIR names, or ~/.claudex. It is launched
and gated like claude. guard also puts the gate into the settings.json there, and
changes nothing else of it, so that Claude started in DIR without guard has its
calls denied. A settings.json that is a link, or that Claude would skip, ends the
launch and is left alone.`,
		Example: `  guard launch claudex -- -p "tidy up the logs" --dangerously-skip-permissions
  guard launch claudex --config-dir ~/agents/night`,
	})
	cmd.Flags().String("config-dir", "", "the configuration directory: a `DIR`")
	return cmd
}
