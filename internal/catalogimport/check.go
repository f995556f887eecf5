package catalogimport

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/verdict"
)

// Report is how a catalog and the tools that there are fit together.
type Report struct {
	Entries   int       `json:"entries"`
	Tools     int       `json:"tools"`
	Findings  []Finding `json:"findings"`
	Unchecked []string  `json:"unchecked"` // entries of servers whose list wasn't given
}

// Finding is one thing that doesn't fit. Line and Entry are of guard.toml, 0 and
// empty where no entry is to blame.
type Finding struct {
	Kind  Kind   `json:"kind"`
	Tool  string `json:"tool"`
	Entry string `json:"entry"`
	Line  int    `json:"line"`
	Text  string `json:"text"` // what is wrong, and what to do
}

// Kind of a finding.
type Kind string

// The kinds.
const (
	Unlisted   Kind = "unlisted"   // a tool without an entry
	Stale      Kind = "stale"      // an entry without a tool
	Ambiguous  Kind = "ambiguous"  // a name or an entry that stands for several
	OwnTool    Kind = "builtin"    // an entry for a host's own tool that does nothing, or by accident
	NoArgument Kind = "vm_arg"     // the tool has no such argument
	Changes    Kind = "class"      // read_only, and its own server says that it changes something
	Incomplete Kind = "incomplete" // a list that goes on
)

// Check compares a catalog with tool lists.
func Check(entries []catalog.Entry, lists []*Source, builtins []Builtin) (*Report, error) {
	c, err := catalog.New(entries)
	if err != nil {
		return nil, err
	}
	k := &checking{catalog: c, used: map[string][]string{}, servers: map[string]bool{}, seen: map[string]string{}}
	for _, s := range lists {
		k.list(s)
	}
	for _, e := range entries {
		k.own(e, builtins)
		k.fits(e, builtins)
	}
	slices.SortStableFunc(k.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Kind, b.Kind))
	})
	k.Entries = len(entries)
	k.Findings = append([]Finding{}, k.Findings...)
	k.Unchecked = append([]string{}, k.Unchecked...)
	return &k.Report, nil
}

// checking is a report while it is made.
type checking struct {
	Report
	catalog *catalog.Catalog
	used    map[string][]string // by match: servers whose tools it is for
	servers map[string]bool     // with a list; true: a whole one
	seen    map[string]string   // by full name: the tool that has it
}

func (k *checking) find(kind Kind, tool string, e catalog.Entry, format string, args ...any) {
	k.Findings = append(k.Findings, Finding{kind, tool, e.Match, e.Line, fmt.Sprintf(format, args...)})
}

// list judges the tools of one file.
func (k *checking) list(s *Source) {
	if _, again := k.servers[s.Server]; !again || s.More {
		k.servers[s.Server] = !s.More
	}
	if s.More {
		k.find(Incomplete, "", catalog.Entry{}, "the list in %s goes on where the file ends (nextCursor); save the whole list, in one file", verdict.Object(s.File))
	}
	for _, t := range s.Tools {
		k.Tools++
		k.tool(s, t)
	}
}

func (k *checking) tool(s *Source, t Tool) {
	name := full(s.Server, t.Name)
	e, listed := k.catalog.Find(name)
	if listed && !slices.Contains(k.used[e.Match], s.Server) {
		k.used[e.Match] = append(k.used[e.Match], s.Server)
	}
	if other, twice := k.seen[name]; twice {
		k.find(Ambiguous, name, e, "%s and %s of server %s have the same name in a host; rename a server", other, verdict.Object(t.Name), verdict.Object(s.Server))
	}
	k.seen[name] = verdict.Object(t.Name) + " of server " + verdict.Object(s.Server)
	switch {
	case !plain().MatchString(t.Name):
		k.find(Ambiguous, name, catalog.Entry{}, "hosts write the name %s in ways of their own; list it by the name that guard log shows", verdict.Object(t.Name))
	case !listed:
		k.find(Unlisted, name, e, "no entry is for it, so checkpoint.unlisted holds; draft one: guard catalog import %s=FILE", s.Server)
	case e.Class == catalog.ReadOnly && t.changes():
		k.find(Changes, name, e, "it is read_only here, and its own server says that it changes something (%s); write class = \"mutating\"", t.hints())
	case e.VMArg != "":
		if why := missing(t.Schema, e.VMArg); why != "" {
			k.find(NoArgument, name, e, "vm_arg = %s names no machine in any call: %s; correct it", verdict.Object(e.VMArg), why)
		}
	}
}

// fits judges whether an entry is for a tool that there is.
func (k *checking) fits(e catalog.Entry, builtins []Builtin) {
	servers := k.used[e.Match]
	if len(servers) > 1 && strings.HasSuffix(e.Match, "*") {
		k.find(Ambiguous, "", e, "the prefix is for tools of several servers (%s); write one entry for each", strings.Join(servers, ", "))
	}
	if len(servers) > 0 || slices.ContainsFunc(builtins, func(b Builtin) bool { return catalog.Covers(e.Match, b.Tool) }) {
		return
	}
	for server, whole := range k.servers {
		if strings.HasPrefix(e.Match, "mcp__"+server+"__") && whole {
			k.find(Stale, "", e, "server %s has no tool for it, or a better entry has each; remove it", verdict.Object(server))
			return
		}
	}
	k.Unchecked = append(k.Unchecked, e.Match)
}

// own judges an entry for a host's own tools.
func (k *checking) own(e catalog.Entry, builtins []Builtin) {
	var idle, caught []string
	for _, b := range builtins {
		if !catalog.Covers(e.Match, b.Tool) {
			continue
		}
		name := b.Tool + " (" + b.Host + ")"
		idles := b.Needs == NeedsNothing || b.Needs == NeedsLease && e.Class == catalog.ReadOnly || b.Needs == NeedsCheckpoint && e.VMArg == "" && len(e.VM) == 0
		switch {
		case e.Match != b.Tool:
			caught = append(caught, name)
		case idles:
			idle = append(idle, name)
		}
	}
	if len(idle) > 0 {
		k.find(OwnTool, "", e, "%s: the host's own, and what it needs doesn't depend on this entry; remove it", some(idle))
	}
	if len(caught) > 0 {
		k.find(OwnTool, "", e, "the prefix takes in tools of hosts themselves, such as %s; write a longer one", some(caught))
	}
}

// some names a few of many.
func some(names []string) string {
	const few = 4
	if len(names) > few {
		return strings.Join(names[:few], ", ") + fmt.Sprintf(" and %d more", len(names)-few)
	}
	return strings.Join(names, ", ")
}
