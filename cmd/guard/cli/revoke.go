package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

func (c Command) revoke() *cobra.Command {
	var all, kill, asJSON bool
	var reason string
	cmd := &cobra.Command{
		Use:   "revoke SESSION | --all",
		Short: "take a session's authority back, at once",
		Long: `Revoke ends the session's lease and every token that is pending. It works in the
broker's memory first, also when its disk is full. A call that is being
checkpointed is denied when it comes back. The session itself goes on.

With --kill, what the session has started and left running is ended then, also
what forked twice or ignores signals. The runtime, its recovery tool and its
gates go on. If something is left, the exit code is 1.`,
		Example: "  guard revoke 3f9a --reason \"touched the wrong host\"\n  guard revoke 3f9a --kill\n  guard revoke --all",
		Args: func(_ *cobra.Command, args []string) error {
			if all == (len(args) == 1) || len(args) > 1 {
				return usagef("name one session, or give --all")
			}
			return nil
		},
		ValidArgsFunction: c.completeSession,
		RunE: run(func(cmd *cobra.Command, args []string) error {
			o, err := c.operator(cmd.Context())
			if err != nil {
				return err
			}
			ctl := wire.Control{Verb: wire.VerbRevoke, All: all, Kill: kill, Reason: reason}
			if !all {
				s, err := o.resolve(args[0])
				if err != nil {
					return err
				}
				ctl.Session = s.ID
			}
			res, err := o.Do(o.ctx, ctl, nil)
			if err != nil {
				return err
			}
			return c.revoked(res, asJSON)
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "every session")
	cmd.Flags().BoolVar(&kill, "kill", false, "end what the session has started and left running")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit and for the session's next denials")
	addJSON(cmd, &asJSON)
	return cmd
}

func (c Command) revoked(res wire.Result, asJSON bool) error {
	c.warn(res.Warnings)
	if asJSON {
		if err := c.printJSON(struct {
			Revoked []string     `json:"revoked"`
			Ended   []wire.Ended `json:"ended,omitempty"`
		}{append([]string{}, res.Revoked...), res.Ended}); err != nil {
			return err
		}
		return leftOver(res.Ended)
	}
	if len(res.Revoked) == 0 {
		fmt.Fprintln(c.Stdout, "no session to revoke: nobody has authority")
	}
	for _, id := range res.Revoked {
		fmt.Fprintf(c.Stdout, "%s is %s\n", id, c.paint(stateColour("UNVERIFIED"), "UNVERIFIED"))
	}
	for _, e := range res.Ended {
		fmt.Fprintf(c.Stdout, "%s  %s\n", verdict.Clean(e.Session), endedText(e))
	}
	return leftOver(res.Ended)
}

func endedText(e wire.Ended) string {
	text := fmt.Sprintf("processes killed: %d, left: %d (found by %s)", e.Killed, e.Left, verdict.Clean(e.Fence))
	if e.Left < 0 {
		text = fmt.Sprintf("processes killed: %d, left: unknown (found by %s)", e.Killed, verdict.Clean(e.Fence))
	}
	return text
}

// leftOver is the finding that something runs on; the warnings have said it.
func leftOver(ended []wire.Ended) error {
	for _, e := range ended {
		if e.Left != 0 {
			return &failure{ExitRefused, errSilent}
		}
	}
	return nil
}
