package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"leaseguard.internal/internal/wire"
)

func (c Command) approve() *cobra.Command {
	var ttl time.Duration
	var asJSON, clearAlarm bool
	cmd := &cobra.Command{
		Use:   "approve SESSION",
		Short: "verify a session: its changes pass, checkpointed, until the lease ends",
		Long: `Approve reads the session's context documents (lease.context), begins a new
verification with them and promotes it, in one step. The lease that the session
had before ends first.

The session must have sent one event through the gate since it was launched;
before that nothing proves that its calls are stopped. SESSION is an id of guard
status, or the beginning of one.

An alarm (a call that ran although it was denied, or other than it was judged)
locks the session until somebody who has looked at guard log clears it.`,
		Example:           "  guard approve 3f9a\n  guard approve 3f9a --ttl 60s\n  guard approve 3f9a --clear-alarm",
		Args:              oneSession,
		ValidArgsFunction: c.completeSession,
		RunE: run(func(cmd *cobra.Command, args []string) error {
			ctl := wire.Control{Verb: wire.VerbApprove, ClearAlarm: clearAlarm}
			if err := setTTL(cmd, &ctl, ttl); err != nil {
				return err
			}
			g, err := c.grant(cmd.Context(), args[0], ctl)
			if err != nil {
				return err
			}
			return c.granted(g, asJSON)
		}),
	}
	addTTL(cmd, &ttl)
	cmd.Flags().BoolVar(&clearAlarm, "clear-alarm", false, "you have looked at the alarm that locks the session")
	addJSON(cmd, &asJSON)
	return cmd
}

// granted prints a lease that an operator gave.
func (c Command) granted(g *wire.Grant, asJSON bool) error {
	if asJSON {
		return c.printJSON(g)
	}
	fmt.Fprintf(c.Stdout, "%s is %s for %s (generation %d, cycle %d)\n",
		g.Session, c.paint(stateColour(g.State), g.State), left(g.ExpiresInS), g.Generation, g.Cycle)
	return nil
}

func addJSON(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVar(to, "json", false, "print JSON")
}

func addTTL(cmd *cobra.Command, to *time.Duration) {
	cmd.Flags().DurationVar(to, "ttl", 0, "how long the lease lasts, whole seconds (default and maximum: lease.ttl)")
}

// setTTL puts a given --ttl into the request. Whether it is in range is the
// broker's to say; that it can be sent at all, ours.
func setTTL(cmd *cobra.Command, ctl *wire.Control, ttl time.Duration) error {
	if !cmd.Flags().Changed("ttl") {
		return nil
	}
	if ttl <= 0 || ttl%time.Second != 0 {
		return usagef("--ttl %s: want whole seconds above 0, as in 60s", ttl)
	}
	seconds := int64(ttl / time.Second)
	ctl.TTLSeconds = &seconds
	return nil
}
