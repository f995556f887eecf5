package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/verdict"
)

// help is cobra's command of that name, but for a name that isn't there it is
// the usage error that it is everywhere else.
func help() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "explain a command",
		Example: "  guard help launch",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("unknown command %q", strings.Join(args, " "))
			}
			return about.Help()
		},
	}
}

func (c Command) completion() *cobra.Command {
	shells := []string{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "print a shell's completion script",
		Long: `Completion prints the script that completes guard's commands, flags and running
sessions in a shell. Packages have put it where each shell looks for such scripts;
without one, put it there, or load it for one session.`,
		Example: `  source <(guard completion bash)
  guard completion zsh > "${fpath[1]}/_guard"
  guard completion fish > ~/.config/fish/completions/guard.fish`,
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("which shell? One of %s", strings.Join(shells, ", "))
			}
			return nil
		},
		RunE: run(func(cmd *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				return cmd.Root().GenBashCompletionV2(c.Stdout, true)
			case "zsh":
				return cmd.Root().GenZshCompletion(c.Stdout)
			case "fish":
				return cmd.Root().GenFishCompletion(c.Stdout, true)
			}
			return usagef("unknown shell %q; want one of %s", args[0], strings.Join(shells, ", "))
		}),
	}
}

// complete offers a flag's values to the shell.
func complete(cmd *cobra.Command, flag string, values []string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // it is there
}

// completing is how long a shell waits for the broker when somebody presses tab.
const completing = time.Second

// completeSession offers the ids of live sessions, with what runs in each. No
// broker is started for it, and one that doesn't answer offers nothing.
func (c Command) completeSession(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	p, err := c.paths()
	if err != nil || len(args) > 0 {
		return nil, none
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completing)
	defer cancel()
	st, err := (operator{Client: client.Dial(p), ctx: ctx}).status()
	if err != nil {
		return nil, none
	}
	var list []cobra.Completion
	for _, s := range st.Sessions {
		list = append(list, cobra.CompletionWithDesc(verdict.Clean(s.ID), verdict.Clean(s.State+", "+s.Command)))
	}
	return list, none
}

// flagError says in our words what is wrong with a flag's value; the flag
// library would quote the function of Go's that refused it.
func flagError(cmd *cobra.Command, err error) error {
	var invalid interface {
		error
		GetValue() string
		Unwrap() error
	}
	if !errors.As(err, &invalid) {
		return &failure{ExitUsage, err}
	}
	value := invalid.GetValue()
	rest := strings.TrimPrefix(err.Error(), fmt.Sprintf("invalid argument %q for \"", value))
	names, _, _ := strings.Cut(rest, `" flag: `)
	_, name, _ := strings.Cut(names, "--")
	want := invalid.Unwrap().Error()
	if flag := cmd.Flags().Lookup(name); flag != nil {
		switch flag.Value.Type() {
		case "duration":
			want = "write a number with a unit, as in 10s or 5m"
		case "bool":
			want = "takes no value"
		case "uint64":
			want = "write a whole number, 0 or more"
		}
	}
	return usagef("--%s %q: %s", name, value, want)
}
