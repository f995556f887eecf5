package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"leaseguard.internal/internal/wire"
)

func (c Command) revoke() *cobra.Command {
	var all, asJSON bool
	var reason string
	cmd := &cobra.Command{
		Use:   "revoke SESSION | --all",
		Short: "take a session's authority back, at once",
		Long: `Revoke ends the session's lease and every token that is pending. It works in the
broker's memory first, also when its disk is full. A call that is being
checkpointed is denied when it comes back. The session itself goes on.`,
		Example: "  guard revoke 3f9a --reason \"touched the wrong host\"\n  guard revoke --all",
		Args: func(_ *cobra.Command, args []string) error {
			if all == (len(args) == 1) || len(args) > 1 {
				return usagef("name one session, or give --all")
			}
			return nil
		},
		RunE: run(func(cmd *cobra.Command, args []string) error {
			o, err := c.operator(cmd.Context())
			if err != nil {
				return err
			}
			ctl := wire.Control{Verb: wire.VerbRevoke, All: all, Reason: reason}
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
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit and for the session's next denials")
	addJSON(cmd, &asJSON)
	return cmd
}

func (c Command) revoked(res wire.Result, asJSON bool) error {
	c.warn(res.Warnings)
	if asJSON {
		ids := append([]string{}, res.Revoked...)
		return c.printJSON(struct {
			Revoked []string `json:"revoked"`
		}{ids})
	}
	if len(res.Revoked) == 0 {
		fmt.Fprintln(c.Stdout, "no session to revoke: nobody has authority")
	}
	for _, id := range res.Revoked {
		fmt.Fprintf(c.Stdout, "%s is %s\n", id, c.paint(stateColour("UNVERIFIED"), "UNVERIFIED"))
	}
	return nil
}
