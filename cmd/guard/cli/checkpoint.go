package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

func (c Command) checkpoint() *cobra.Command {
	var identifier, asJSON bool
	cmd := &cobra.Command{
		Use:   "checkpoint VM",
		Short: "take a checkpoint of a machine by hand, and confirm it",
		Long: `Checkpoint has the broker take a tagged checkpoint of the machine, in every VPG
that protects it, and read it back, as before a call that changes the machine.
It ends when the checkpoint is confirmed, or checkpoint.timeout is over. It
gives no session anything: each call takes a checkpoint of its own.`,
		Example:           "  guard checkpoint app-01\n  guard checkpoint --identifier 5a3f1c2e-0000-4000-8000-000000000000.vm-42",
		Args:              one("machine, by its name in Zerto"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: run(func(cmd *cobra.Command, args []string) error {
			o, err := c.operator(cmd.Context())
			if err != nil {
				return err
			}
			res, err := o.Do(cmd.Context(), wire.Control{Verb: wire.VerbCheckpoint, VM: args[0], Identifier: identifier}, nil)
			if err == nil && len(res.Checkpoints) == 0 {
				err = fmt.Errorf("%w: no checkpoint", client.ErrAnswer)
			}
			if err != nil {
				return err
			}
			if asJSON {
				return c.printJSON(struct {
					Checkpoints []wire.CheckpointInfo `json:"checkpoints"`
				}{res.Checkpoints})
			}
			rows := [][]cell{header("VM", "VPG", "TAG", "ID", "TIME")}
			for _, cp := range res.Checkpoints {
				rows = append(rows, []cell{
					{text: verdict.Object(cp.VM)}, {text: verdict.Object(cp.VPG)}, {text: verdict.Object(cp.Tag)}, {text: verdict.Object(cp.ID)}, {text: dayTime(cp.Time)},
				})
			}
			c.table(c.Stdout, rows)
			return nil
		}),
	}
	cmd.Flags().BoolVar(&identifier, "identifier", false, "VM is no name but an identifier of Zerto's, GUID.moref")
	addJSON(cmd, &asJSON)
	return cmd
}
