package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"leaseguard.internal/launcher"
)

// agent launches a runtime by its name. It returns only if that failed; the exit
// code is 3 also for a refusal, since no session was started.
func (c Command) agent(cmd *cobra.Command, runtime string, args []string) error {
	l, help, err := agentFlags(args)
	if err != nil {
		return err
	}
	if help {
		return cmd.Help()
	}
	l.Env, l.Warn = c.Env, func(w string) { c.warn([]string{w}) }
	if l.Paths, err = c.paths(); err == nil {
		err = launcher.Agent(cmd.Context(), runtime, l)
	}
	return &failure{ExitUnfinished, err}
}

// describeAgentFlags is for the help alone: agentFlags reads them.
func describeAgentFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.String("resume", "", "`ID` of an ended session of yours, whose next generation this is; it keeps no authority (the client's own --resume goes behind --)")
	f.String("client", "", "the native program, in place of the one in PATH: a `FILE`")
	f.Bool("no-cache", false, "prove the gate also if that was done within a day")
}

// agentFlags takes guard's own flags off the beginning of args.
func agentFlags(args []string) (l launcher.AgentLaunch, help bool, err error) {
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
