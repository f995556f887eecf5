package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/hookfile"
	"leaseguard.internal/internal/hookrun"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

func (c Command) hooksList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "which policy hooks there are, and which are trusted",
		Long: `List shows every definition of policy hooks: of the user's hooks.json, of the
projects that sessions were launched in, of the working directory, and those that
are trusted for a project whose file doesn't have them any more, which stay in
force until they are revoked.

A project's file that was changed since a launch is marked project_policy_changed:
the session goes on with what it was launched with.`,
		Example: "  guard hooks list\n  guard hooks list --json",
		Args:    noArgs,
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			h, err := c.lookAtHooks(cmd.Context())
			if err != nil {
				return err
			}
			changes(h.Projects)
			if asJSON {
				return c.printJSON(h.Hooks)
			}
			c.printHooks(h)
			return nil
		}),
	}
	addJSON(cmd, &asJSON)
	return cmd
}

// hookLook is what the broker knows of policy hooks, and by what it was asked.
type hookLook struct {
	wire.Hooks
	operator
	request wire.HooksRequest
	text    []byte
}

// lookAtHooks asks the broker, and shows it what is in the working directory,
// where nothing need have been launched yet.
func (c Command) lookAtHooks(ctx context.Context) (hookLook, error) {
	o, err := c.operator(ctx)
	if err != nil {
		return hookLook{}, err
	}
	return c.hooksOf(o)
}

// hooksOf does so by an operator that is there already.
func (c Command) hooksOf(o operator) (hookLook, error) {
	h := hookLook{operator: o}
	if dir, err := os.Getwd(); err == nil {
		project, text, err := client.LookAtProject(dir)
		if err != nil {
			fmt.Fprintf(c.Stderr, "warning: %s\n", verdict.Clean(err.Error()))
		}
		if project.State == wire.ProjectRead {
			h.request, h.text = wire.HooksRequest{Dir: dir, Project: project}, text
		}
	}
	return h, h.do(wire.VerbHooks, h.request)
}

// do sends a request about policy hooks, and takes in how things stand then.
func (h *hookLook) do(verb wire.Verb, req wire.HooksRequest) error {
	req.Dir, req.Project = h.request.Dir, h.request.Project
	res, err := h.Do(h.ctx, wire.Control{Verb: verb, Hooks: &req}, h.text)
	if err != nil {
		return err
	}
	if res.Hooks == nil {
		return fmt.Errorf("%w: no policy hooks", client.ErrAnswer)
	}
	h.Hooks = *res.Hooks
	return nil
}

// changes marks the projects whose file isn't what sessions were launched with.
// One that can't be looked at is left as it is.
func changes(projects []wire.HookSource) {
	for i := range projects {
		p := &projects[i]
		if len(p.Sessions) == 0 {
			continue
		}
		now, text, err := client.LookAtProject(p.Dir)
		if err != nil {
			continue
		}
		sum := ""
		if now.State == wire.ProjectRead {
			digest := sha256.Sum256(text)
			sum = hex.EncodeToString(digest[:])
		}
		p.Changed = p.SHA256 != sum
	}
}

func (c Command) printHooks(h hookLook) {
	for _, s := range append([]wire.HookSource{h.User}, h.Projects...) {
		c.printSource(s)
	}
	if len(h.Definitions) == 0 {
		fmt.Fprintln(c.Stdout, "no policy hooks; docs/policy.md shows how to write one")
	}
	for _, d := range h.Definitions {
		fmt.Fprintf(c.Stdout, "%s  %s  %s\n", verdict.Clean(d.ID), c.hookState(d), verdict.Clean(d.Identity))
		fmt.Fprintf(c.Stdout, "  runs     %s\n", commandLine(d))
		fmt.Fprintf(c.Stdout, "  matches  %s\n", verdict.Object(d.Matcher))
		fmt.Fprintf(c.Stdout, "  hash     %s\n", d.Key)
	}
	if untrusted := slices.ContainsFunc(h.Definitions, func(d wire.HookDefinition) bool { return d.Trust == nil && d.Enabled && !d.Replaced }); untrusted && h.Untrusted != "skip" {
		fmt.Fprintln(c.Stdout, "what is untrusted denies the calls that it matches (hooks.untrusted); trust one: guard hooks trust ID")
	}
}

func (c Command) printSource(s wire.HookSource) {
	if s.Identity != hookfile.UserIdentity && s.State == string(wire.ProjectAbsent) && !s.Changed {
		return // most sessions have none
	}
	text := verdict.Clean(s.Path) + "  " + s.State
	if len(s.Sessions) > 0 {
		text += "  sessions " + strings.Join(s.Sessions, " ")
	}
	fmt.Fprintln(c.Stdout, text)
	if s.Fault != "" {
		fmt.Fprintf(c.Stdout, "  nothing may change there: %s\n", verdict.Clean(s.Fault))
	}
	if s.Changed {
		fmt.Fprintln(c.Stdout, "  project_policy_changed: the file is another since; it takes effect at the next launch")
	}
}

// hookState is one word or two for how a definition stands.
func (c Command) hookState(d wire.HookDefinition) string {
	switch {
	case d.Trust == nil && !d.Enabled:
		return "disabled"
	case d.Replaced:
		return "replaced"
	case d.Trust == nil:
		return c.paint(stateColour("UNVERIFIED"), "untrusted")
	}
	state := "trusted"
	if !d.Enabled {
		state = "trusted, disabled"
	}
	if !d.InFile {
		state += ", in no file"
	}
	if files, err := hookrun.Digest(d.Command, d.Args); err != nil || !wire.SameFiles(files, d.Trust.Files) {
		return c.paint(stateColour("UNVERIFIED"), state+", but what it runs has changed")
	}
	return c.paint(stateColour("VERIFIED"), state)
}

// commandLine shows what runs, each part quoted where it needs to be.
func commandLine(d wire.HookDefinition) string {
	parts := []string{bare(d.Command)}
	for _, arg := range d.Args {
		parts = append(parts, bare(arg))
	}
	return strings.Join(parts, " ")
}

// bare quotes what isn't a plain word.
func bare(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-=:,+@%"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return strconv.QuoteToASCII(s)
}

// resolveHook finds the one definition that an id, or the beginning of a hash,
// names among those that fit.
func (h hookLook) resolveHook(name string, fit func(wire.HookDefinition) bool) (wire.HookDefinition, error) {
	var found []wire.HookDefinition
	for _, d := range h.Definitions {
		if fit(d) && isNamed(d, name) {
			found = append(found, d)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return wire.HookDefinition{}, noHook(name, "no definition has this id or hash", "guard hooks list")
	}
	var list []string
	slices.SortFunc(found, func(a, b wire.HookDefinition) int { return cmp.Compare(a.Key, b.Key) })
	for _, d := range found {
		list = append(list, fmt.Sprintf("%s (%s of %s, %s)", short(d.Key), verdict.Object(d.ID), verdict.Object(d.Identity), commandLine(d)))
	}
	return wire.HookDefinition{}, noHook(name, "it fits "+strings.Join(list, " and "), "give one by its hash")
}

// knows says whether the name fits anything that nobody trusts.
func (h hookLook) knows(name string) bool {
	return slices.ContainsFunc(h.Definitions, func(d wire.HookDefinition) bool { return d.Trust == nil && !d.Replaced && isNamed(d, name) })
}

func isNamed(d wire.HookDefinition, name string) bool {
	return d.ID == name || namesHash(name, d.Key) || d.Trust != nil && namesHash(name, d.Trust.Hash)
}

// minHash is the least of a hash that may stand for all of it.
const minHash = 8

func namesHash(name, hash string) bool {
	bare, digits := strings.TrimPrefix(name, hashPrefix), strings.TrimPrefix(hash, hashPrefix)
	return len(bare) >= minHash && strings.HasPrefix(digits, bare)
}

const hashPrefix = "sha256:"

func short(hash string) string { return hash[:min(len(hash), len(hashPrefix)+12)] }

func noHook(name, cause, next string) error {
	return &wire.Error{Code: string(verdict.NoSuchHook), Message: verdict.Reason(verdict.NoSuchHook, "finding the policy hook", verdict.Object(name), cause, next)}
}
