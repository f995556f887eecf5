package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"leaseguard.internal/internal/hookfile"
	"leaseguard.internal/internal/hookrun"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

func (c Command) hooksTrust() *cobra.Command {
	var yes, asJSON bool
	var from string
	cmd := &cobra.Command{
		Use:   "trust ID | HASH | --from FILE",
		Short: "let a policy hook run, as it is now",
		Long: `Trust shows what a policy hook would run, with the digest of each file, and what is
different from what was trusted under its name before; then it asks. What runs is
what was shown: another definition, or one other byte in its program or in a script
among its arguments, isn't trusted. It holds from the next turn of a session on.

ID is that of a definition; where several have it, a HASH of guard hooks list tells
them apart. The working directory's .guard/hooks.json counts also before anything
was launched there.

With --from, FILE is a hook-trust.json of the system that the format comes from.
Nothing is trusted by it, since it says nothing of any program's bytes: trust shows
which of its records are definitions here, to be trusted one by one.`,
		Example: `  guard hooks trust no-push
  guard hooks trust sha256:5df0dea214cc --yes
  guard hooks trust --from ~/.maka/hook-trust.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if (from == "") != (len(args) == 1) || len(args) > 1 {
				return usagef("name one policy hook, or give --from FILE")
			}
			return nil
		},
		RunE: run(func(cmd *cobra.Command, args []string) error {
			h, err := c.lookAtHooks(cmd.Context())
			switch {
			case err != nil:
				return err
			case from != "":
				return c.oldTrust(h, from, asJSON)
			}
			return c.trustHook(h, args[0], yes, asJSON)
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	cmd.Flags().StringVar(&from, "from", "", "say what the trust in this `FILE` amounts to")
	addJSON(cmd, &asJSON)
	return cmd
}

// toTrust is the definition that is meant. Of one identity what nobody trusts is,
// before what would only be trusted again. Of two identities neither is: a project
// that gives its hook the id of the user's is not trusted in its place.
func (h hookLook) toTrust(name string) (wire.HookDefinition, error) {
	open := func(d wire.HookDefinition) bool { return d.Trust == nil && !d.Replaced }
	return h.resolveHook(name, func(d wire.HookDefinition) bool {
		return open(d) || !slices.ContainsFunc(h.Definitions, func(o wire.HookDefinition) bool {
			return o.Identity == d.Identity && isNamed(o, name) && open(o)
		})
	})
}

func (c Command) trustHook(h hookLook, name string, yes, asJSON bool) error {
	d, err := h.toTrust(name)
	if err != nil {
		return err
	}
	files, err := hookrun.Digest(d.Command, d.Args)
	if err != nil {
		return fmt.Errorf("trusting %s: %w; put the program there, where you may read it", verdict.Object(d.ID), err)
	}
	before, was := trustedBefore(h.Definitions, d)
	now := describe(d, files)
	say := func() {
		if !was {
			fmt.Fprintf(c.Stderr, "policy hook %s of %s, never trusted before, will run as each session's user:\n", verdict.Object(d.ID), verdict.Object(d.Identity))
			for _, l := range now {
				fmt.Fprintf(c.Stderr, "  %s\n", l)
			}
			return
		}
		fmt.Fprintf(c.Stderr, "policy hook %s of %s, in place of what was trusted at %s:\n", verdict.Object(d.ID), verdict.Object(d.Identity), before.Trust.At.Format("2006-01-02 15:04:05 MST"))
		for _, l := range diff(describe(before, before.Trust.Files), now) {
			fmt.Fprintln(c.Stderr, l)
		}
	}
	if yes {
		say()
	} else if err := c.sure("nothing was trusted", say); err != nil {
		return err
	}
	if err := h.do(wire.VerbHooksTrust, wire.HooksRequest{Key: d.Key, Files: files, Seen: h.Revocations}); err != nil {
		return err
	}
	i := slices.IndexFunc(h.Definitions, func(o wire.HookDefinition) bool { return o.Key == d.Key && o.Trust != nil })
	if i < 0 {
		return noHook(name, "trust in it was revoked at the same time", "guard hooks list")
	}
	if asJSON {
		return c.printJSON(h.Definitions[i])
	}
	fmt.Fprintf(c.Stdout, "%s of %s is trusted as %s, from the next turn of each session on\n", verdict.Clean(d.ID), verdict.Clean(d.Identity), short(h.Definitions[i].Trust.Hash))
	return nil
}

// trustedBefore is what was trusted under the definition's name: the same with
// other bytes, or another.
func trustedBefore(all []wire.HookDefinition, d wire.HookDefinition) (wire.HookDefinition, bool) {
	if d.Trust != nil {
		return d, true
	}
	i := slices.IndexFunc(all, func(o wire.HookDefinition) bool { return o.Identity == d.Identity && o.ID == d.ID && o.Trust != nil })
	if i < 0 {
		return d, false
	}
	return all[i], true
}

// describe says in lines all that trust covers.
func describe(d wire.HookDefinition, files []wire.HookFile) []string {
	lines := []string{"matcher   " + verdict.Object(d.Matcher), "command   " + bare(d.Command)}
	for i, arg := range d.Args {
		lines = append(lines, fmt.Sprintf("args[%d]   %s", i, bare(arg)))
	}
	lines = append(lines, fmt.Sprintf("timeout   %d ms", d.TimeoutMS), "on error  "+d.OnError)
	for _, f := range files {
		path := d.Command
		if f.Arg > 0 && f.Arg <= len(d.Args) {
			path = d.Args[f.Arg-1]
		}
		lines = append(lines, "sha256    "+f.SHA256+"  "+bare(path))
	}
	return lines
}

// diff shows the lines of both; between two that they share, those that only the
// first has stand before those that only the second has.
func diff(before, now []string) (lines []string) {
	var added []string
	flush := func(gone []string) {
		for _, l := range gone {
			lines = append(lines, "- "+l)
		}
		lines = append(lines, added...)
		added = nil
	}
	for _, l := range now {
		at := slices.Index(before, l)
		if at < 0 {
			added = append(added, "+ "+l)
			continue
		}
		flush(before[:at])
		before = before[at+1:]
		lines = append(lines, "  "+l)
	}
	flush(before)
	return lines
}

// oldRecord is what one record of an old trust file amounts to here.
type oldRecord struct {
	Hash     string `json:"hash"`
	Source   string `json:"source"`
	Identity string `json:"identity"`
	ID       string `json:"id"`    // of the definition here; empty: there is none
	Key      string `json:"key"`   // of it
	Here     string `json:"here"`  // its identity here
	State    string `json:"state"` // trusted, to_trust or unknown
}

// oldTrust says what an old trust file amounts to.
func (c Command) oldTrust(h hookLook, path string, asJSON bool) error {
	text, err := c.readUpTo("--from", path, hookfile.MaxFile)
	if err != nil {
		return err
	}
	records, err := hookfile.ParseOldTrust(text)
	if err != nil {
		return fmt.Errorf("reading %s: %w", verdict.Object(path), err)
	}
	all := []oldRecord{}
	for _, r := range records {
		all = append(all, amountsTo(h.Definitions, r)...)
	}
	if asJSON {
		return c.printJSON(all)
	}
	for _, r := range all {
		switch r.State {
		case "trusted":
			fmt.Fprintf(c.Stdout, "%s  %s of %s, trusted here too\n", short(r.Hash), verdict.Clean(r.ID), verdict.Clean(r.Here))
		case "to_trust":
			fmt.Fprintf(c.Stdout, "%s  %s of %s; its program's bytes were never covered: guard hooks trust %s\n", short(r.Hash), verdict.Clean(r.ID), verdict.Clean(r.Here), short(r.Key))
		default:
			fmt.Fprintf(c.Stdout, "%s  no definition here (%s)\n", short(r.Hash), verdict.Clean(r.Identity))
		}
	}
	if len(all) == 0 {
		fmt.Fprintln(c.Stdout, "nothing is trusted there")
	}
	return nil
}

// amountsTo finds the definitions that a record was about.
func amountsTo(all []wire.HookDefinition, r hookfile.OldTrust) []oldRecord {
	base := oldRecord{Hash: r.Hash, Source: string(r.Source), Identity: r.Identity, State: "unknown"}
	var found []oldRecord
	for _, d := range all {
		def := hookfile.Definition{Source: hookfile.Source(d.Source), Matcher: d.Matcher, Command: d.Command, Args: d.Args, TimeoutMS: d.TimeoutMS}
		if def.Source != r.Source || def.OldHash(r.Identity) != r.Hash {
			continue
		}
		one := base
		one.ID, one.Key, one.Here, one.State = d.ID, d.Key, d.Identity, "to_trust"
		if d.Trust != nil {
			one.State = "trusted"
		}
		found = append(found, one)
	}
	if len(found) == 0 {
		return []oldRecord{base}
	}
	return found
}
