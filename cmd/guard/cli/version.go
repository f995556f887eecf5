package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"leaseguard.internal/internal/version"
)

func (c Command) version() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "print guard's version",
		Example: "  guard version\n  guard version --json",
		Args:    noArgs,
		RunE: run(func(*cobra.Command, []string) error {
			if asJSON {
				return c.printJSON(struct {
					Version string `json:"version"`
					Go      string `json:"go"`
					Arch    string `json:"arch"`
				}{version.Version, runtime.Version(), runtime.GOARCH})
			}
			_, err := fmt.Fprintln(c.Stdout, "guard", version.Version)
			return err
		}),
	}
	addJSON(cmd, &asJSON)
	return cmd
}
