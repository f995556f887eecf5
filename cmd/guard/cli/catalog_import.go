package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/catalogimport"
	"leaseguard.internal/internal/verdict"
)

func (c Command) catalogImport() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "import [NAME=]FILE...",
		Short: "draft [[tool]] entries from tool lists and rewind-guard configurations",
		Long: `Import writes a draft of [[tool]] entries to stdout, for you to judge and to
append to guard.toml. It never writes guard.toml itself.

FILE is JSON: an MCP server's answer to tools/list, or a configuration of
rewind-guard (read_only_tools, and vm_arg of single tools); - is stdin. NAME is
what the host calls the server; a tool list needs it.

What rewind-guard called read-only is drafted as read_only, unless a server says
otherwise of its tool. What servers say of their own tools proves nothing: all of
them are drafted as mutating, and a hint that one only reads is a comment.`,
		Example: `  npx @modelcontextprotocol/inspector --cli ./vsphere-mcp --method tools/list >tools.json
  guard catalog import vsphere=tools.json
  guard catalog import vsphere=rewind.json vsphere=tools.json >draft.toml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("%s takes files: tool lists as NAME=FILE, rewind-guard configurations", cmd.CommandPath())
			}
			return nil
		},
		RunE: run(func(_ *cobra.Command, args []string) error {
			sources, err := c.sources(args)
			if err != nil {
				return err
			}
			var have []catalog.Entry
			if cfg, path, err := c.guardToml(); err != nil {
				c.warn([]string{fmt.Sprintf("the draft isn't compared with %s, which can't be read: %s", verdict.Object(path), saidOnce(err))})
			} else {
				have = cfg.Tools
			}
			draft := catalogimport.New(sources, have, ownTools())
			if asJSON {
				return c.printJSON(draft)
			}
			_, err = c.Stdout.Write(draft.TOML())
			return err
		}),
	}
	addJSON(cmd, &asJSON)
	return cmd
}
