package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/wire"
)

// stopTimeout is how long a stopping broker may take to write its last records.
const stopTimeout = 15 * time.Second

func (c Command) broker() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "broker",
		Short: "start, stop or restart the broker",
		Long: `The broker owns every lease. In user mode the other commands start it when they
need it. After a stop or restart nobody has authority; sessions that still run
come back UNVERIFIED.`,
		Example: `  guard broker restart        # after a change of guard.toml
  guard broker stop
  guard broker stop --user    # in system mode: your own broker of before`,
	})
	cmd.AddCommand(c.brokerStart(), c.brokerStop(), c.brokerRestart(), c.brokerSpawn())
	return cmd
}

func (c Command) brokerStart() *cobra.Command {
	return &cobra.Command{
		Use:     "start",
		Short:   "start the broker if none runs",
		Example: "  guard broker start",
		Args:    noArgs,
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			p, err := c.operable(cmd.Context(), false)
			if err != nil {
				return err
			}
			return c.start(cmd.Context(), p)
		}),
	}
}

func (c Command) brokerStop() *cobra.Command {
	var own bool
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "stop the broker; every lease ends with it",
		Long: `Stop ends the broker, and with it every lease.

A machine that was switched to system mode may still have brokers of user mode,
which go on with the sessions that they have. --user stops your own of them.`,
		Example: "  guard broker stop\n  guard broker stop --user",
		Args:    noArgs,
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			p, err := c.pathsOf(own)
			if err != nil {
				return err
			}
			return c.stop(cmd.Context(), p)
		}),
	}
	cmd.Flags().BoolVar(&own, "user", false, "your own broker, also when the machine is in system mode")
	return cmd
}

func (c Command) brokerRestart() *cobra.Command {
	return &cobra.Command{
		Use:     "restart",
		Short:   "stop the broker and start it again, with the configuration as it is now",
		Example: "  guard broker restart",
		Args:    noArgs,
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			p, err := c.paths()
			if err != nil {
				return err
			}
			if p.Mode == paths.System {
				return errors.New("restarting the broker: in system mode systemd runs it; run: systemctl restart guard-broker; or, to take over guard.toml and nothing else: systemctl reload guard-broker")
			}
			// What can't start again is better left running.
			if err := client.CheckConfig(p); err != nil {
				return err
			}
			if err := c.stop(cmd.Context(), p); err != nil {
				return err
			}
			return c.start(cmd.Context(), p)
		}),
	}
}

// brokerSpawn is the middle of the double fork that starts a broker.
func (c Command) brokerSpawn() *cobra.Command {
	return &cobra.Command{
		Use:    client.SpawnArgs[1],
		Hidden: true,
		Args:   noArgs,
		RunE:   run(func(*cobra.Command, []string) error { return client.Spawn(c.Stdin) }),
	}
}

func (c Command) start(ctx context.Context, p paths.Paths) error {
	if err := client.EnsureBroker(ctx, p); err != nil {
		return err
	}
	res, err := client.Dial(p).Do(ctx, wire.Control{Verb: wire.VerbStatus}, nil)
	if err != nil {
		return err
	}
	if res.Status == nil {
		return fmt.Errorf("%w: no status", client.ErrAnswer)
	}
	fmt.Fprintf(c.Stdout, "broker runs: pid %d, sockets in %q\n", res.Status.Broker.PID, p.RunDir)
	return nil
}

func (c Command) stop(ctx context.Context, p paths.Paths) error {
	up, err := client.Running(ctx, p)
	if err != nil {
		return err
	}
	if !up {
		fmt.Fprintln(c.Stdout, "no broker runs")
		return nil
	}
	if _, err := client.Dial(p).Do(ctx, wire.Control{Verb: wire.VerbStop}, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := client.AwaitStop(ctx, p); err != nil {
		return err
	}
	fmt.Fprintln(c.Stdout, "broker stopped: nobody has authority")
	return nil
}
