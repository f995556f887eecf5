// Package cli is the guard command: one file for each of its commands.
//
// It holds no authority. What it asks of the broker is decided there, from what
// the kernel says of this process; what it prints of other people's text is
// quoted or cleaned first. Results go to stdout, everything else to stderr, so
// that output can be piped. Every command that prints data has --json.
//
// Exit codes are the same for all commands: see the Exit constants. docs/cli.md
// is the reference for people.
package cli

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/version"
)

// Exit codes.
const (
	ExitDone       = 0 // done, nothing found
	ExitRefused    = 1 // refused by the broker, or a check found something
	ExitUsage      = 2 // the command line can't be understood
	ExitUnfinished = 3 // it could not be done, or a launch was refused
)

// Command is one run of guard.
type Command struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Env            []string // as os.Environ gives it
}

// Main runs guard with args, the program's name not among them, and returns the
// exit code.
func (c Command) Main(args []string) int {
	out := &output{to: c.Stdout}
	c.Stdout = out
	root := c.Tree()
	root.SetArgs(args)
	root.SetIn(c.Stdin)
	root.SetOut(c.Stdout)
	root.SetErr(c.Stderr)
	cmd, err := root.ExecuteContextC(context.Background())
	if out.err != nil && (err == nil || errors.Is(err, errSilent)) {
		err = &failure{ExitUnfinished, out.err} // what would say it all didn't arrive
	}
	return c.report(cmd, err)
}

// Tree is guard with all its commands, to run or to describe.
func (c Command) Tree() *cobra.Command {
	root := &cobra.Command{
		Use:   "guard",
		Short: "no change by an agent without a verified lease and a confirmed checkpoint",
		Long: `guard makes an agent's host stop every tool call that changes a machine until
the session holds a verified lease, at most 300 s long, and a tagged Zerto
checkpoint of every machine that the call names has been read back.`,
		Example: `  guard init                          # write guard.toml
  guard launch exec -- ./my-agent     # start a session
  guard status                        # what runs, and what to do next
  guard approve 3f9a                  # verify the session for up to 300 s
  guard revoke --all                  # take all authority back, at once`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.Version = version.Version
	root.SetVersionTemplate("guard {{.Version}}\n")
	root.Flags().Bool("version", false, "print guard's version")
	group(root)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(help())
	for _, part := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Sessions:", []*cobra.Command{c.launch(), c.status(), c.approve(), c.revoke(), c.verify(), c.promote(), c.mcp()}},
		{"Records and checks:", []*cobra.Command{c.log(), c.audit(), c.explain(), c.checkpoint(), c.doctor(), c.hooks(), c.catalog()}},
		{"Setting up and trying out:", []*cobra.Command{c.broker(), c.init(), c.uninstall(), c.demo(), c.zvmSim(), c.completion(), c.version()}},
	} {
		root.AddGroup(&cobra.Group{ID: part.title, Title: part.title})
		for _, cmd := range part.commands {
			cmd.GroupID = part.title
			root.AddCommand(cmd)
		}
		root.SetHelpCommandGroupID(part.title) // the last one's
	}
	return root
}

// group makes cmd a command that only holds others: without one of them it is a
// usage error, not a success.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var names []string
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				names = append(names, sub.Name())
			}
		}
		if len(args) > 0 {
			return usagef("unknown command %q; want one of %s", args[0], strings.Join(names, ", "))
		}
		return usagef("which command? One of %s", strings.Join(names, ", "))
	}
	return cmd
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no argument, and got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// one wants one argument that isn't empty; what says which.
func one(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return usagef("%s takes one %s, and got %d", cmd.CommandPath(), what, len(args))
		}
		return nil
	}
}

// oneSession wants one argument, a session.
func oneSession(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("%s takes one session, and got %d; see: guard status", cmd.CommandPath(), len(args))
	}
	return nil
}

// env looks a variable up; the last of equal names counts, as for the shell.
func (c Command) env(name string) string {
	value := ""
	for _, v := range c.Env {
		if rest, ok := strings.CutPrefix(v, name+"="); ok {
			value = rest
		}
	}
	return value
}

// paths says where the broker's files and sockets are.
func (c Command) paths() (paths.Paths, error) {
	return paths.Resolve(c.env, uid())
}

// pathsOf does the same, or says where the user's own broker has them, also in
// system mode.
func (c Command) pathsOf(own bool) (paths.Paths, error) {
	if own {
		return paths.ResolveUser(c.env, uid())
	}
	return c.paths()
}
