package cli

import (
	"fmt"
	"regexp"

	"github.com/spf13/cobra"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// wholeHash is a hash that names what it names also if nobody knows it.
var wholeHash = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func (c Command) hooksRevoke() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "revoke ID | HASH",
		Short: "take trust in a policy hook back, at once",
		Long: `Revoke takes trust in a policy hook back: it runs no more, in no session, also in a
turn that is under way. While its file still has it, it denies what it matches as
any definition does that nobody trusts (hooks.untrusted); a project's that is in no
file any more is gone then.

Whoever is about to trust it, and looked at it before, is refused. A whole hash is
revoked also where nobody has trusted it.`,
		Example: "  guard hooks revoke no-push\n  guard hooks revoke sha256:5df0dea214cc",
		Args:    oneHook,
		RunE: run(func(cmd *cobra.Command, args []string) error {
			h, err := c.lookAtHooks(cmd.Context())
			if err != nil {
				return err
			}
			d, err := h.resolveHook(args[0], func(d wire.HookDefinition) bool { return d.Trust != nil })
			if client.Refused(err, verdict.NoSuchHook) && wholeHash.MatchString(args[0]) {
				d, err = wire.HookDefinition{ID: args[0], Key: args[0]}, nil
			}
			if err != nil && h.knows(args[0]) {
				return noHook(args[0], "nobody has trusted it, so there is nothing to revoke", "guard hooks list")
			}
			if err != nil {
				return err
			}
			if err := h.do(wire.VerbHooksRevoke, wire.HooksRequest{Key: d.Key}); err != nil {
				return err
			}
			if asJSON {
				return c.printJSON(struct {
					Key         string `json:"key"`
					Was         bool   `json:"was_trusted"`
					Revocations uint64 `json:"revocations"`
				}{d.Key, d.Trust != nil, h.Revocations})
			}
			fmt.Fprintf(c.Stdout, "%s is not trusted\n", verdict.Clean(d.ID))
			return nil
		}),
	}
	addJSON(cmd, &asJSON)
	return cmd
}
