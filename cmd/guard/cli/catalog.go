package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"leaseguard.internal/gate/dialect"
	"leaseguard.internal/internal/catalogimport"
	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

func (c Command) catalog() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "catalog",
		Short: "the catalog of tools: draft it from tool lists, compare it with them",
		Long: `The catalog is what [[tool]] in guard.toml says of tools that aren't the host's
own. These commands help to write it and to keep it. They read files, ask no
broker, and change nothing.

A tool list is an MCP server's answer to tools/list, saved as JSON, and given as
NAME=FILE, with the NAME that the host knows the server by.`,
		Example: `  guard catalog import vsphere=tools.json >draft.toml
  guard catalog check vsphere=tools.json`,
	}
	group(cmd)
	cmd.AddCommand(c.catalogImport(), c.catalogCheck())
	return cmd
}

// sources reads arguments of the form FILE or NAME=FILE.
func (c Command) sources(args []string) ([]*catalogimport.Source, error) {
	var all []*catalogimport.Source
	for _, arg := range args {
		server, file, named := strings.Cut(arg, "=")
		if !named || server == "" || strings.Contains(server, "/") { // ./a=b is a file
			server, file = "", arg
		}
		text, err := c.readUpTo("a file", file, catalogimport.MaxFile)
		if err != nil {
			return nil, err
		}
		s, err := catalogimport.Read(file, server, text)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// readUpTo reads a file that the user names, or stdin for -. what is said of it
// when that fails.
func (c Command) readUpTo(what, path string, most int64) ([]byte, error) {
	from := c.Stdin
	if path != "-" {
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOCTTY, 0) // #nosec G304 -- the user names it
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", what, err)
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", what, err)
	case int64(len(text)) > most:
		return nil, usagef("%s %s holds more than the %d bytes that are read", what, verdict.Object(path), most)
	}
	return text, nil
}

// guardToml is the configuration, as far as this user may read it.
func (c Command) guardToml() (*config.Config, string, error) {
	p, err := c.paths()
	if err != nil {
		return nil, "", err
	}
	cfg, err := config.Load(p.Config, p.Mode, p.BrokerUID)
	if err != nil {
		return nil, p.Config, &failure{ExitUnfinished, &client.ConfigError{Err: err}} // 1 would be a finding
	}
	return cfg, p.Config, nil
}

// ownTools are the tools that hosts have themselves.
func ownTools() []catalogimport.Builtin {
	var all []catalogimport.Builtin
	for _, h := range []struct {
		name string
		host wire.Host
	}{{"claude", wire.HostClaude}, {"codex", wire.HostCodex}, {"pi", wire.HostPi}} {
		for _, tool := range dialect.Tools(h.host) {
			b := catalogimport.Builtin{Host: h.name, Tool: tool, Needs: catalogimport.NeedsLease}
			switch {
			case dialect.Classify(h.host, tool) == dialect.Read:
				b.Needs = catalogimport.NeedsNothing
			case dialect.Builtin(h.host, tool) == dialect.ChangesSelf:
				b.Needs = catalogimport.NeedsCheckpoint
			}
			all = append(all, b)
		}
	}
	return all
}
