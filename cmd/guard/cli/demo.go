package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"leaseguard.internal/cmd/guard/demo"
	"leaseguard.internal/internal/sandbox"
)

func (c Command) demo() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "tell guard's story on this machine, in seconds",
		Long: `Demo starts a simulated ZVM, a broker and a scripted agent in a temporary
directory, and shows an agent refused, verified, checkpointed and let through. It
needs no root, no network and no configuration, and leaves nothing behind. It
allows sessions of root for itself alone.`,
		Example: "  guard demo\n  guard demo --json",
		Args:    noArgs,
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			// A reader that goes away, as head does, must end the story and not this
			// process, which would leave its sandbox behind.
			pipe := make(chan os.Signal, 1)
			signal.Notify(pipe, syscall.SIGPIPE)
			defer signal.Stop(pipe)
			var lost error
			out := writerFunc(func(p []byte) (n int, err error) {
				if n, err = c.Stdout.Write(p); err != nil {
					lost = err
					stop()
				}
				return n, err
			})
			paint := func(verdict string) string { return c.paint(verdictColour(verdict), verdict) }
			opt := demo.Options{Out: out, Env: c.Env, Paint: paint}
			if asJSON {
				opt.Out = nil
			}
			steps, err := demo.Run(ctx, opt)
			if asJSON {
				err = errors.Join(err, c.printJSON(steps))
			}
			if lost != nil && errors.Is(err, context.Canceled) {
				return lost
			}
			if errors.Is(err, context.Canceled) {
				err = errors.New("the demo was interrupted; it has cleaned up after itself")
			}
			return err
		}),
	}
	addJSON(cmd, &asJSON)
	cmd.AddCommand(&cobra.Command{
		Use: "agent", Short: "the demo's scripted agent", Hidden: true, Args: noArgs,
		RunE: run(func(*cobra.Command, []string) error { return sandbox.Serve(c.Stdin, c.Stdout) }),
	})
	return cmd
}
