package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"leaseguard.internal/launcher"
)

// launchAgent makes the command that launches a runtime by its name of one that
// has words for people alone.
func (c Command) launchAgent(runtime string, cmd *cobra.Command) *cobra.Command {
	cmd.DisableFlagParsing = true    // nothing behind guard's own flags may be taken for one
	cmd.DisableFlagsInUseLine = true // they stand in Use
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error { return c.agent(cmd, runtime, args) })
	// For the help alone: agentFlags reads them.
	f := cmd.Flags()
	f.String("resume", "", "`ID` of an ended session of yours, whose next generation this is; it keeps no authority (the client's own --resume goes behind --)")
	f.String("client", "", "the client's own program in `FILE`, of Pi its script, in place of the one in PATH")
	f.Bool("no-cache", false, "prove the gate also if that was done within a day")
	return cmd
}

// agent launches a runtime by its name. It returns only if that failed; the exit
// code is 3 also for a refusal, since no session was started.
func (c Command) agent(cmd *cobra.Command, runtime string, args []string) error {
	l, help, err := agentFlags(runtime, args)
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

// agentFlags takes guard's own flags off the beginning of args.
func agentFlags(runtime string, args []string) (l launcher.AgentLaunch, help bool, err error) {
	texts := map[string]*string{"--resume": &l.Resume, "--client": &l.File}
	if runtime == "claudex" {
		texts["--config-dir"] = &l.ConfigDir
	}
	for len(args) > 0 {
		name, value, given := strings.Cut(args[0], "=")
		switch {
		case args[0] == "--":
			l.Argv = args[1:]
			return l, false, nil
		case name == "-h", name == "--help":
			return l, true, nil
		case name == "--no-cache" && given:
			return l, false, usagef("--no-cache takes no value")
		case name == "--no-cache":
			l.NoCache, args = true, args[1:]
		case texts[name] != nil:
			if args, err = textFlag(texts[name], name, value, given, args[1:]); err != nil {
				return l, false, err
			}
		default:
			l.Argv = args
			return l, false, nil
		}
	}
	return l, false, nil
}

// textFlag takes a flag's value, which stands behind its = or in the next
// argument, and gives what is left of the arguments.
func textFlag(to *string, name, value string, given bool, rest []string) ([]string, error) {
	if !given && len(rest) == 0 {
		return nil, usagef("%s wants a value; the client's own %s goes behind --", name, name)
	}
	if !given {
		value, rest = rest[0], rest[1:]
	}
	if value == "" || !given && strings.HasPrefix(value, "-") {
		return nil, usagef("%s wants a value, and got %q; the client's own %s goes behind --", name, value, name)
	}
	*to = value
	return rest, nil
}
