package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

func (c Command) explain() *cobra.Command {
	var input, runtime string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain TOOL",
		Short: "which rule a call of a tool would meet, and why, without making it",
		Long: `Explain has the broker judge a call that nobody made, by the same rules as a
real one, and does nothing: no checkpoint is taken and nothing is recorded. It
shows the answer without a lease and with one. The ZVM is asked whether it knows
the machines. Policy hooks and the policy server are named and not asked: guard
hooks test tries one.

Inside a session it explains that session's own calls, and leaves the ZVM alone.`,
		Example: `  guard explain Bash
  guard explain mcp__vsphere__power_off_vm --input call.json
  echo '{"file_path":"/etc/guard/guard.toml"}' | guard explain Read --input -`,
		Args:              one("tool, by the name that the host gives it"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: run(func(cmd *cobra.Command, args []string) error {
			text, err := c.readInput(input)
			if err != nil {
				return err
			}
			o, err := c.operator(cmd.Context())
			if err != nil {
				return err
			}
			q := &wire.Explain{Tool: args[0], Runtime: runtime}
			if dir, err := os.Getwd(); err == nil && filepath.IsAbs(dir) {
				q.Dir = dir
			}
			res, err := o.self(wire.Control{Verb: wire.VerbExplain, Explain: q}, text)
			if err == nil && (res.Explained == nil || len(res.Explained.Answers) == 0) {
				err = fmt.Errorf("%w: no explanation", client.ErrAnswer)
			}
			if err != nil {
				return err
			}
			if asJSON {
				return c.printJSON(res.Explained)
			}
			c.printExplained(c.Stdout, res.Explained)
			return nil
		}),
	}
	cmd.Flags().StringVar(&input, "input", "", "the tool's arguments, one JSON object: a `FILE`, or - for stdin (default {})")
	cmd.Flags().StringVar(&runtime, "runtime", "", "claude, claudex, pi or codex (default: the session's own, outside of sessions claude)")
	complete(cmd, "runtime", []string{"claude", "claudex", "pi", "codex"})
	addJSON(cmd, &asJSON)
	return cmd
}

// readInput reads the arguments of a call, within what the broker takes.
func (c Command) readInput(path string) ([]byte, error) {
	if path == "" {
		return []byte("{}"), nil
	}
	text, err := c.readUpTo("--input", path, wire.MaxContext)
	if err == nil && len(text) == 0 {
		err = usagef("--input is empty; write one JSON object, {} for a call without arguments")
	}
	return text, err
}

func (c Command) printExplained(w io.Writer, e *wire.Explained) {
	whose := "of " + verdict.Clean(e.Runtime) + ", in any session"
	if e.Session != "" {
		whose = "of " + verdict.Clean(e.Runtime) + ", in session " + verdict.Clean(e.Session)
	}
	rows := [][]cell{{{"tool", faint}, {text: verdict.Object(e.Tool) + " " + whose}}}
	if e.Class != "" {
		rows = append(rows, []cell{{"class", faint}, {text: classText(e)}})
	}
	if e.Entry != nil {
		rows = append(rows, []cell{{"catalog", faint}, {text: verdict.Object(e.Entry.Match) + ", " + verdict.Clean(e.Entry.Class) + ", line " + strconv.Itoa(e.Entry.Line) + " of guard.toml"}})
	}
	if len(e.Targets) > 0 {
		rows = append(rows, []cell{{"machines", faint}, {text: objects(e.Targets)}})
	}
	for _, a := range e.Answers {
		rows = append(rows, c.answerRows(a)...)
	}
	if len(e.Policies) > 0 {
		when := "once the lease holds"
		if e.Class == "read" {
			when = "without a lease too"
		}
		rows = append(rows, []cell{}, []cell{{"policies", faint}, {text: "met too, " + when + "; each may deny the call:"}})
	}
	for _, p := range e.Policies {
		rows = append(rows, []cell{{}, {text: policyText(p)}})
	}
	c.table(w, rows)
}

func policyText(p wire.ForeseenPolicy) string {
	switch name := "hook " + verdict.Object(p.ID) + " of the " + verdict.Clean(p.Source) + "'s"; {
	case p.Becomes == wire.PolicyUnknown:
		return "policy hooks that can't be read, so that what changes something is denied: " + verdict.Clean(p.Fault)
	case p.Kind == audit.PolicyServer:
		return "the policy server, which is not asked here"
	case p.Becomes == wire.PolicyDenies:
		return name + ", which nobody trusts as it is: the call is denied. Next: guard hooks trust " + bare(p.ID)
	case p.Becomes == wire.PolicySkipped:
		return name + ", which nobody trusts as it is: it is skipped (hooks.untrusted)"
	default:
		return name + ", which is not asked here. Next: guard hooks test " + bare(p.ID)
	}
}

func classText(e *wire.Explained) string {
	builtin := map[string]string{"changes_self": ", a tool of the host's own that changes this machine", "lease_only": ", a tool of the host's own that changes no machine"}
	return verdict.Clean(e.Class) + builtin[e.Builtin]
}

// answerRows are one answer: verdict and code, the row, and what would be told.
func (c Command) answerRows(a wire.Foreseen) [][]cell {
	lease := "always"
	if a.Lease != "any" {
		lease = verdict.Clean(a.Lease)
	}
	rows := [][]cell{
		{},
		{{lease, faint}, {verdict.Clean(a.Verdict) + "  " + verdict.Clean(a.Code), verdictColour(a.Verdict)}},
		{{}, {text: verdict.Clean(a.Row)}},
	}
	for _, cp := range a.Checkpoints {
		rows = append(rows, []cell{{}, {text: "would be taken of " + verdict.Object(cp.VM) + " in VPG " + verdict.Object(cp.VPG)}})
	}
	if a.Unasked {
		rows = append(rows, []cell{{}, {text: "the ZVM is not asked for a session: whether it knows the machines shows in the call"}})
	}
	if a.Reason != "" {
		rows = append(rows, []cell{{}, {text: verdict.Clean(a.Reason)}})
	}
	return rows
}
