package cli

import (
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"leaseguard.internal/internal/recovery"
)

func (c Command) mcp() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "mcp --server NAME",
		Short: "serve a session's own recovery tool on stdin and stdout, for a host",
		Long: `Mcp is started by a host, as guard launch has told it to: an MCP server with the
one tool recover. Called without arguments it begins a verification and answers
with the context documents and a token; called with the token it promotes. That
is allowed only where lease.promotion = "self", and only in the session that the
host belongs to.

It ends with its stdin and with the host.`,
		Example: "  guard mcp --server guard-0011223344556677",
		Args:    noArgs,
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			if !recovery.ValidName(name) {
				return usagef("--server takes the name that guard launch gave the server, such as guard-0011223344556677, and not %q", name)
			}
			p, err := c.paths()
			if err != nil {
				return err
			}
			// A Ctrl-C meant for the host, or for an editor that it started, would
			// end this too, and the session couldn't recover any more.
			signal.Ignore(syscall.SIGINT)
			ctx, stop, err := recovery.WithParent(cmd.Context())
			if err != nil {
				return err
			}
			defer stop()
			return recovery.Serve(ctx, recovery.Options{Name: name, Paths: p, In: c.Stdin, Out: c.Stdout})
		}),
	}
	cmd.Flags().StringVar(&name, "server", "", "name of the server, as the host knows it")
	return cmd
}
