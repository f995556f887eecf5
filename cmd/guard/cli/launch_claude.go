package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"leaseguard.internal/launcher"
)

func (c Command) launchClaude() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "claude [--resume ID] [--client FILE] [--no-cache] [--] [ARGS…]",
		Short: "launch Claude Code with the gate before every tool call",
		Long: `Claude finds the native executable of Claude Code, installs the gate in it, has
it prove that it asks the gate, and becomes it. ARGS reach the client byte for
byte behind guard's own arguments; options that would silence the gate are
refused. guard's own flags come first; the first word that is none of them
begins ARGS.

The client reads no settings file: guard gives it the gate, and takes over
model, permissions, env and MCP servers from the user's own configuration. What
a project's settings say is not loaded.`,
		Example: `  guard launch claude
  guard launch claude -- -p "tidy up the logs" --permission-mode acceptEdits
  guard launch claude -- --resume     # goes on with a conversation of the client's`,
		// Nothing behind guard's own flags may be taken for one.
		DisableFlagParsing:    true,
		DisableFlagsInUseLine: true, // they stand in Use
		RunE: run(func(cmd *cobra.Command, args []string) error {
			l, help, err := claudeFlags(args)
			if err != nil {
				return err
			}
			if help {
				return cmd.Help()
			}
			l.Env, l.Warn = c.Env, func(w string) { c.warn([]string{w}) }
			if l.Paths, err = c.paths(); err == nil {
				err = launcher.Claude(cmd.Context(), l)
			}
			return &failure{ExitUnfinished, err}
		}),
	}
	// For the help alone: claudeFlags reads them.
	f := cmd.Flags()
	f.String("resume", "", "`ID` of an ended session of yours, whose next generation this is; it keeps no authority (the client's own --resume goes behind --)")
	f.String("client", "", "the native program, in place of the one in PATH: a `FILE`")
	f.Bool("no-cache", false, "prove the gate also if that was done within a day")
	return cmd
}

// claudeFlags takes guard's own flags off the beginning of args.
func claudeFlags(args []string) (l launcher.ClaudeLaunch, help bool, err error) {
	for len(args) > 0 {
		name, value, given := strings.Cut(args[0], "=")
		switch name {
		case "--":
			if !given {
				l.Argv = args[1:]
				return l, false, nil
			}
		case "-h", "--help":
			return l, true, nil
		case "--no-cache":
			if given {
				return l, false, usagef("--no-cache takes no value")
			}
			l.NoCache, args = true, args[1:]
			continue
		case "--resume", "--client":
			if !given && len(args) < 2 {
				return l, false, usagef("%s wants a value; the client's own %s goes behind --", name, name)
			}
			if !given {
				value, args = args[1], args[1:]
			}
			if value == "" || !given && strings.HasPrefix(value, "-") {
				return l, false, usagef("%s wants a value, and got %q; the client's own %s goes behind --", name, value, name)
			}
			if name == "--resume" {
				l.Resume = value
			} else {
				l.File = value
			}
			args = args[1:]
			continue
		}
		l.Argv = args
		return l, false, nil
	}
	return l, false, nil
}
