package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"leaseguard.internal/broker"
	"leaseguard.internal/cmd/guard/cli"
)

//go:embed guard-broker.md
var brokerText string

//go:embed guard-gate.md
var gateText string

// all makes every page, by its file's name.
func all(root string) (map[string]string, error) {
	commands, err := os.ReadFile(filepath.Join(root, "docs", "cli.md")) // #nosec G304 -- of this repository
	if err != nil {
		return nil, err
	}
	settings, err := os.ReadFile(filepath.Join(root, "docs", "configuration.md")) // #nosec G304 -- of this repository
	if err != nil {
		return nil, err
	}
	pages := map[string]string{}
	for name, make := range map[string]func() (*page, error){
		"guard.toml.5":   func() (*page, error) { return configuration(string(settings)) },
		"guard-broker.8": brokerPage,
		"guard-gate.8":   gatePage,
	} {
		p, err := make()
		if err != nil {
			return nil, fmt.Errorf("writing %s: %w", name, err)
		}
		pages[name] = p.String()
	}
	top := cli.Command{}.Tree()
	for _, cmd := range tree(top) {
		p := command(cmd)
		if cmd == top {
			if err := general(p, string(commands)); err != nil {
				return nil, fmt.Errorf("reading docs/cli.md: %w", err)
			}
		}
		also(p, cmd)
		pages[pageName(cmd)+".1"] = p.String()
	}
	return pages, nil
}

// tree is a command with all that are below it, but for help, which has no page.
func tree(cmd *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			list = append(list, tree(sub)...)
		}
	}
	return list
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// command is the page of a command as its help tells it.
func command(cmd *cobra.Command) *page {
	cmd.InitDefaultHelpFlag()
	subs := tree(cmd)[1:]
	p := newPage(pageName(cmd), "1", cmd.Short)
	p.section("Synopsis")
	if len(subs) > 0 {
		p.line(bold(cmd.CommandPath()) + " " + italic("command") + " [" + italic("flags") + "]")
	} else {
		p.line(bold(cmd.CommandPath()) + escape(strings.TrimPrefix(cmd.UseLine(), cmd.CommandPath())))
	}
	p.section("Description")
	if cmd.Long == "" {
		p.plain(sentence(cmd.Short))
	}
	p.plain(cmd.Long)
	if len(subs) > 0 {
		p.section("Commands")
	}
	for _, sub := range subs {
		if sub.Parent() == cmd {
			p.tag(`\fB`+escape(pageName(sub))+`\fR(1)`, escape(sentence(sub.Short)))
		}
	}
	p.section("Options")
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { p.flag(f) })
	if cmd.Example != "" {
		p.section("Examples")
		p.plain(cmd.Example)
	}
	return p
}

func (p *page) flag(f *pflag.Flag) {
	value, usage := pflag.UnquoteUsage(f)
	term := bold("--" + f.Name)
	if f.Shorthand != "" {
		term = bold("-"+f.Shorthand) + ", " + term
	}
	if value != "" {
		term += " " + italic(value)
	}
	switch f.DefValue {
	case "", "false", "0", "0s", "[]":
	default:
		usage += fmt.Sprintf(" (default %q)", f.DefValue)
	}
	p.tag(term, escape(sentence(usage)))
}

// general is what holds for all commands.
func general(p *page, text string) error {
	for _, heading := range []string{"Exit codes", "Who may run them"} {
		body, err := part(text, heading)
		if err != nil {
			return err
		}
		p.section(heading)
		if err := p.markdown(body); err != nil {
			return err
		}
	}
	return nil
}

// also names the pages around a command's.
func also(p *page, cmd *cobra.Command) {
	var names []string
	for parent := cmd; parent.HasParent(); parent = parent.Parent() {
		names = append([]string{pageName(parent.Parent()) + "(1)"}, names...)
	}
	if names != nil {
		p.section("Exit status")
		p.paragraph(escape("As of all of guard's commands: see guard(1)."))
	}
	seeAlso(p, append(names, "guard.toml(5)", "guard-broker(8)", "guard-gate(8)"))
}

func seeAlso(p *page, names []string) {
	p.section("See also")
	var list []string
	for _, name := range names {
		title, section, _ := strings.Cut(name, "(")
		list = append(list, bold(title)+"("+section)
	}
	p.paragraph(strings.Join(list, ", "))
	p.paragraph(escape("The manuals in /usr/share/doc/leaseguard, where a package has put them: cli.md, configuration.md, hosts.md, install.md, operations.md, policy.md."))
}

func configuration(text string) (*page, error) {
	p := newPage("guard.toml", "5", "configuration of guard")
	_, body, found := strings.Cut(text, "# Configuration\n")
	if !found {
		return nil, errors.New("docs/configuration.md has another title")
	}
	p.section("Description")
	if err := p.markdown(body); err != nil {
		return nil, err
	}
	seeAlso(p, []string{"guard(1)", "guard-init(1)", "guard-broker(8)"})
	return p, nil
}

func brokerPage() (*page, error) {
	var help bytes.Buffer
	none := func(string) string { return "" }
	if code := broker.Main([]string{"--help"}, none, &help, &help); code != 0 {
		return nil, fmt.Errorf("running guard-broker --help: it ends with %d", code)
	}
	before, rest, found := strings.Cut(help.String(), "usage: ")
	usage, after, more := strings.Cut(rest, "\n")
	about, examples, last := strings.Cut(after, "examples:\n")
	if !found || !more || !last {
		return nil, fmt.Errorf("reading guard-broker --help: it has another shape: %q", help.String())
	}
	p := newPage("guard-broker", "8", "the daemon that owns guard's leases")
	p.section("Synopsis")
	p.line(bold(usage))
	p.section("Description")
	p.plain(before + "\n\n" + about)
	if err := p.markdown(brokerText); err != nil {
		return nil, err
	}
	p.section("Examples")
	p.plain(examples)
	seeAlso(p, []string{"guard(1)", "guard-broker(1)", "guard-gate(8)", "guard.toml(5)"})
	return p, nil
}

func gatePage() (*page, error) {
	p := newPage("guard-gate", "8", "ask guard's broker about a tool call, for an agent's host")
	if err := p.markdown(gateText); err != nil {
		return nil, err
	}
	seeAlso(p, []string{"guard(1)", "guard-launch(1)", "guard-broker(8)"})
	return p, nil
}

// sentence has a capital and a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
