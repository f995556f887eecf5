package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/launcher"
)

func (c Command) launch() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "launch RUNTIME",
		Short: "start a session: register this process, then become the runtime",
		Long: `Launch registers its own process with the broker and then execs the runtime in
its place: same pid, arguments byte for byte, same directory. The session starts
UNVERIFIED: reads pass, changes are denied until guard approve.

claude is Claude Code, with the gate installed and proved; claudex is the same
with a configuration directory of its own. codex is Codex, pi is Pi, each with
the gate installed and proved. exec is any command that calls guard-gate itself.`,
		Example: `  guard launch claude
  guard launch claude -- -p "tidy up the logs"
  guard launch exec -- bash`,
	})
	cmd.AddCommand(c.launchClaude(), c.launchClaudex(), c.launchCodex(), c.launchPi(), c.launchExec())
	return cmd
}

func (c Command) launchExec() *cobra.Command {
	var resume string
	cmd := &cobra.Command{
		Use:   "exec [flags] [--] COMMAND [ARGS…]",
		Short: "launch any command that calls the gate itself",
		Long: `Exec launches COMMAND as a session's runtime. Its descendants find the session's
id and generation in GUARD_SESSION and GUARD_GENERATION; neither is a secret or
gives authority. Variables of guard and of systemd's socket activation are
removed, and no file descriptor but 0 to 2 is handed on.

COMMAND may not be claude, claudex, pi or codex, nor a shim of them.`,
		Example: "  guard launch exec -- ./my-agent --task 7\n  guard launch exec -- bash",
		RunE: run(func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "" {
				return usagef("which command? As in: guard launch exec -- ./my-agent")
			}
			return c.exec(cmd, args, resume)
		}),
	}
	cmd.Flags().StringVar(&resume, "resume", "", "id of an ended session of yours (guard log --event session), whose next generation this is; it keeps no authority")
	cmd.Flags().SetInterspersed(false) // what follows the command is the command's
	return cmd
}

// exec returns only if the launch failed. Its exit code is 3 also for a refusal:
// no session was started.
func (c Command) exec(cmd *cobra.Command, argv []string, resume string) error {
	p, err := c.paths()
	if err == nil {
		err = launcher.Exec(cmd.Context(), launcher.Launch{
			Paths: p, Argv: argv, Env: c.Env, Resume: resume,
			Warn: func(w string) { c.warn([]string{w}) },
		})
	}
	return &failure{ExitUnfinished, err}
}

// warn prints what the broker wants people to know.
func (c Command) warn(warnings []string) {
	for _, w := range warnings {
		fmt.Fprintln(c.Stderr, "guard: warning: "+verdict.Clean(w))
	}
}

// uid is whose files and broker this process uses.
func uid() uint32 {
	return uint32(os.Getuid()) // #nosec G115 -- the kernel's uids are 32 bits
}
