// Package catalogimport drafts a tool catalog from what others say of tools, and
// compares a catalog with the tools that there are.
//
// It reads two kinds of files. A tool list is what an MCP server answers to
// tools/list: {"tools": [...]}, alone or inside of its JSON-RPC answer. A guard
// configuration is that of rewind-guard: JSON with read_only_tools, a list of
// names, and for single tools a vm_arg. Its format isn't public; what is
// understood of it stands at readGuard, and every other key is named as not
// taken over.
//
// The two don't weigh the same. A guard configuration is an operator's own older
// decision, so a tool that it calls read-only is drafted as read-only. What a
// server says of its tools, hints and descriptions, is said by the one who is to
// be guarded: a hint that a tool only reads becomes a comment, and the entry says
// mutating. A hint that it changes something is believed, since it only narrows.
//
// Nothing here touches guard.toml or is in force: a draft is text for review.
// Everything that a file says is quoted wherever it is written.
package catalogimport

import (
	"errors"
	"fmt"
	"regexp"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/verdict"
)

const (
	// MaxFile is the most bytes of a file that is read.
	MaxFile = 8 << 20
	// MaxTools is how many tools a file may name.
	MaxTools = 10_000
)

// plain are names that hosts write as they are. Others they write in ways of
// their own, so that nobody can say here which name will be asked for.
var plain = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]+$`) })

// Source is one file that was read.
type Source struct {
	File   string
	Server string // what the host calls the MCP server; "" where nobody said
	Tools  []Tool // of a tool list
	More   bool   // the list goes on where this file ends
	Guard  *Guard // of a guard configuration; nil: a tool list
}

// Tool is one tool of a server's list.
type Tool struct {
	Name        string         // as its server has it
	Description string         // of itself
	Schema      jsontext.Value // of its arguments
	ReadOnly    *bool          // its server's hints; nil: none
	Destructive *bool
}

// changes says whether the server itself says that the tool changes something.
func (t Tool) changes() bool {
	return t.ReadOnly != nil && !*t.ReadOnly || t.Destructive != nil && *t.Destructive
}

// reads says whether the server says that the tool only reads.
func (t Tool) reads() bool { return t.ReadOnly != nil && *t.ReadOnly && !t.changes() }

// Builtin is a host's own tool, and what it needs.
type Builtin struct {
	Host, Tool string
	Needs      Need
}

// Need is what a host's own tool needs whatever a catalog says of it.
type Need uint8

// The needs.
const (
	NeedsNothing Need = iota + 1 // it reads
	NeedsLease
	NeedsCheckpoint // of the machine it runs on
)

// Read reads a file. name is for people; server is what the host calls the MCP
// server that the file is about, or empty.
func Read(name, server string, data []byte) (*Source, error) {
	if server != "" && !plain().MatchString(server) {
		return nil, fmt.Errorf("reading %s: %s is no name of a server as a host writes it; use letters, digits, _ and - as in mcp__NAME__tool", verdict.Object(name), verdict.Object(server))
	}
	s := &Source{File: name, Server: server}
	err := s.read(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", verdict.Object(name), err)
	}
	return s, nil
}

func (s *Source) read(data []byte) error {
	fields, err := strictjson.Fields(data, "tools", "result", "read_only_tools", "vm_arg", "nextCursor", "error")
	if err != nil {
		return fmt.Errorf("%w; give a tool list or a rewind-guard configuration, both in JSON", err)
	}
	_, only := fields["read_only_tools"]
	_, args := fields["vm_arg"]
	_, failed := fields["error"]
	tools := jsontext.Value(fields["tools"])
	switch {
	case only || args || tools.Kind() == '{':
		s.Guard, err = readGuard(fields)
		return err
	case fields["result"] != nil:
		inner, err := strictjson.Fields(fields["result"], "tools", "nextCursor")
		if err != nil {
			return fmt.Errorf("the value of \"result\": %w", err)
		}
		fields = inner
	case failed:
		return errors.New("the server's answer is an error, not a list of tools; ask it again")
	}
	if fields["tools"] == nil {
		return errors.New("neither a tool list (no key \"tools\") nor a rewind-guard configuration (no \"read_only_tools\"); save the answer to tools/list, or give the configuration as JSON")
	}
	return s.readList(fields)
}

// readList reads the answer to tools/list. Keys that are new are fine.
func (s *Source) readList(fields map[string][]byte) error {
	if s.Server == "" {
		return errors.New("a tool list doesn't say what its server is called; give it as NAME=FILE, with the NAME that stands in mcp__NAME__tool")
	}
	var tools []struct {
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Schema      jsontext.Value `json:"inputSchema"`
		Annotations struct {
			ReadOnly    *bool `json:"readOnlyHint"`
			Destructive *bool `json:"destructiveHint"`
		} `json:"annotations"`
	}
	if err := json.Unmarshal(fields["tools"], &tools); err != nil {
		return fmt.Errorf("the value of \"tools\" is no list of tools: %s", verdict.Clean(err.Error()))
	}
	if len(tools) > MaxTools {
		return fmt.Errorf("%d tools; at most %d are read", len(tools), MaxTools)
	}
	for i, t := range tools {
		if t.Name == "" {
			return fmt.Errorf("tool %d of the list has no name", i+1)
		}
		s.Tools = append(s.Tools, Tool{Name: t.Name, Description: t.Description, Schema: t.Schema, ReadOnly: t.Annotations.ReadOnly, Destructive: t.Annotations.Destructive})
	}
	next := jsontext.Value(fields["nextCursor"])
	s.More = len(next) > 0 && string(next) != "null" && string(next) != `""`
	return nil
}

// full is the name by which hosts ask for a tool of a server.
func full(server, tool string) string { return "mcp__" + server + "__" + tool }

// sound says whether an entry can stand in guard.toml, and what is wrong with it.
func sound(e catalog.Entry) error {
	_, err := catalog.New([]catalog.Entry{e})
	if fault, ok := errors.AsType[*catalog.Error](err); ok {
		return errors.New(fault.Key + ": " + fault.Problem)
	}
	return err
}
