package cli

import "github.com/spf13/cobra"

func (c Command) launchClaude() *cobra.Command {
	return c.launchAgent("claude", &cobra.Command{
		Use:   "claude [--resume ID] [--client FILE] [--no-cache] [--] [ARGS…]",
		Short: "launch Claude Code with the gate before every tool call",
		Long: `Claude finds the native executable of Claude Code, installs the gate in it, has
it prove that it asks the gate, and becomes it. ARGS reach the client byte for
byte behind guard's own arguments; options that would silence the gate are
refused. guard's own flags come first; the first word that is none of them
begins ARGS.

The client reads no settings file: guard gives it the gate, and what is safe of
the user's own: model, language, permissions, env, instructions, agents, MCP
servers, key helper. docs/hosts.md lists each key. What a project's settings say
is not loaded, but those of its MCP servers that the user's files accept by name.`,
		Example: `  guard launch claude
  guard launch claude -- -p "tidy up the logs" --permission-mode acceptEdits
  guard launch claude -- --resume     # goes on with a conversation of the client's`,
	})
}
