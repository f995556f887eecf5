package catalogimport

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/verdict"
)

// Draft is a catalog for review.
type Draft struct {
	From    []string  `json:"from"` // what was read, for people
	Entries []Drafted `json:"entries"`
	Left    []string  `json:"left_out"` // what was not drafted, each with why
}

// Drafted is one [[tool]] for review.
type Drafted struct {
	Match   string   `json:"match"`
	Class   string   `json:"class"`
	VMArg   string   `json:"vm_arg"`
	Why     []string `json:"why"`     // where that comes from, and what to look at
	Suggest []string `json:"suggest"` // lines of TOML that might be right instead, or too
}

// New drafts entries for what the sources name. have is the catalog that there
// is: what it lists by the same name is left out.
func New(sources []*Source, have []catalog.Entry, builtins []Builtin) *Draft {
	d := &drafting{have: have, builtins: builtins, byMatch: map[string]*Drafted{}, listed: map[string]string{}}
	for _, s := range sources {
		if s.Guard != nil {
			d.guard(s)
		}
	}
	for _, s := range sources {
		if s.Guard == nil {
			d.list(s)
		}
	}
	return d.done(sources)
}

// drafting is a draft while it is made.
type drafting struct {
	have     []catalog.Entry
	builtins []Builtin
	byMatch  map[string]*Drafted // nil: left out
	prefixes []*Drafted
	listed   map[string]string // by match: the tool of a list that it stands for
	left     []string
}

func (d *drafting) leave(format string, args ...any) {
	d.left = append(d.left, fmt.Sprintf(format, args...))
}

// entry returns the entry of that match, new or not; nil: it is left out.
func (d *drafting) entry(match string, e catalog.Entry) *Drafted {
	if old, known := d.byMatch[match]; known {
		return old
	}
	d.byMatch[match] = nil
	e.Match = match
	if err := sound(e); err != nil {
		d.leave("%s: %v", verdict.Object(match), err)
		return nil
	}
	made := &Drafted{Match: match, Class: e.Class.String(), VMArg: e.VMArg, Why: []string{}, Suggest: []string{}}
	for _, h := range d.have {
		switch {
		case h.Match == match:
			d.leave("%s: guard.toml lists it already, as %s, at line %d", verdict.Object(match), h.Class, h.Line)
			return nil
		case catalog.Covers(h.Match, match):
			made.because("guard.toml covers it by %s, %s, at line %d; this entry would beat that.", verdict.Object(h.Match), h.Class, h.Line)
		}
	}
	d.byMatch[match] = made
	if strings.HasSuffix(match, "*") {
		d.prefixes = append(d.prefixes, made)
	}
	return made
}

func (e *Drafted) because(format string, args ...any) {
	e.Why = append(e.Why, fmt.Sprintf(format, args...))
}

// guard drafts what a guard configuration says.
func (d *drafting) guard(s *Source) {
	file := verdict.Object(s.File)
	for _, name := range s.Guard.ReadOnly {
		match, own, ok := d.name(s, name)
		switch {
		case !ok:
		case own == NeedsNothing || own == NeedsLease:
			d.leave("%s: a host's own tool, which passes without an entry", verdict.Object(name))
		default:
			if e := d.entry(match, catalog.Entry{Class: catalog.ReadOnly}); e != nil {
				e.because("%s lists it in read_only_tools.", file)
				if strings.HasSuffix(match, "*") {
					e.because("A prefix takes in tools that come later, too.")
				}
			}
		}
	}
	for _, arg := range s.Guard.Args {
		match, _, ok := d.name(s, arg.Tool)
		if !ok {
			continue
		}
		e := d.entry(match, catalog.Entry{Class: catalog.Mutating, VMArg: arg.Path})
		if e == nil {
			continue
		}
		if e.Class != catalog.Mutating.String() {
			e.mutating("%s gives it a vm_arg besides, as if it changed that machine.", file)
		}
		if e.VMArg != "" && e.VMArg != arg.Path {
			e.because("It is given two vm_arg; the other is below.")
			e.suggest("vm_arg = " + tomlString(arg.Path))
			continue
		}
		e.VMArg = arg.Path
		e.because("%s says that vm_arg names the machine.", file)
	}
	for _, text := range s.Guard.Left {
		d.leave("of %s: %s", file, text)
	}
}

// mutating takes read_only back, and leaves it as a suggestion.
func (e *Drafted) mutating(why string, args ...any) {
	e.because(why, args...)
	e.Class = catalog.Mutating.String()
	e.suggest(readOnlyLine)
}

// suggest leaves a line once, whoever has said it: a table takes no key twice.
func (e *Drafted) suggest(line string) {
	if !slices.Contains(e.Suggest, line) {
		e.Suggest = append(e.Suggest, line)
	}
}

const readOnlyLine = `class = "read_only"`

// name is how hosts call what a guard configuration calls name, and what it needs
// if it is a host's own.
func (d *drafting) name(s *Source, name string) (match string, own Need, ok bool) {
	for _, b := range d.builtins {
		if b.Tool == name {
			own = max(own, b.Needs)
		}
	}
	switch {
	case own != 0 || strings.HasPrefix(name, "mcp__"):
		return name, own, true
	case s.Server != "":
		return full(s.Server, name), 0, true
	}
	d.leave("%s: no host calls a server's tool so; give the file as NAME=%s, with the NAME that stands in mcp__NAME__tool", verdict.Object(name), verdict.Clean(s.File))
	return "", 0, false
}

// list drafts the tools of a server's list.
func (d *drafting) list(s *Source) {
	for _, t := range s.Tools {
		match := full(s.Server, t.Name)
		if !plain().MatchString(t.Name) {
			d.leave("%s of %s: hosts write such a name in ways of their own; list it by the name that guard log shows", verdict.Object(t.Name), verdict.Object(s.Server))
			continue
		}
		if d.takenIn(match, t) {
			continue
		}
		e := d.entry(match, catalog.Entry{Class: catalog.Mutating})
		if e == nil {
			continue
		}
		if p := d.prefix(match); p != nil && p.Match != match {
			e.because("Without it, %s would take it in as %s.", verdict.Object(p.Match), p.Class)
		}
		if other, twice := d.listed[match]; twice {
			e.because("Two tools have this name: the other is %s.", other)
		}
		d.listed[match] = fmt.Sprintf("%s of %s", verdict.Object(t.Name), verdict.Object(s.Server))
		e.about(t)
	}
}

// takenIn says whether a prefix of a guard configuration speaks for the tool.
func (d *drafting) takenIn(match string, t Tool) bool {
	if _, known := d.byMatch[match]; known {
		return false
	}
	best := d.prefix(match)
	if best == nil || best.Class == catalog.ReadOnly.String() && t.changes() || best.VMArg != "" && missing(t.Schema, best.VMArg) != "" {
		return false
	}
	best.because("It takes in %s.", verdict.Object(match))
	return true
}

// prefix is the longest drafted prefix that covers match.
func (d *drafting) prefix(match string) *Drafted {
	var best *Drafted
	for _, p := range d.prefixes {
		if catalog.Covers(p.Match, match) && (best == nil || len(p.Match) > len(best.Match)) {
			best = p
		}
	}
	return best
}

// about adds what a server says of its tool.
func (e *Drafted) about(t Tool) {
	if t.Description != "" {
		e.because("Its server describes it as %s.", verdict.Object(verdict.Clean(t.Description)))
	}
	readOnly := e.Class == catalog.ReadOnly.String()
	switch {
	case t.changes() && readOnly:
		e.mutating("But its own server says that it changes something (%s), so it is drafted as mutating.", t.hints())
	case t.changes():
		e.because("Its server says that it changes something (%s).", t.hints())
	case t.reads() && readOnly:
		e.because("Its server says so too (%s).", t.hints())
	case t.reads():
		e.because("Its server says that it only reads (%s). That is no proof: take the class below only if you know it.", t.hints())
		e.suggest(readOnlyLine)
	case !readOnly:
		e.because("Nothing says that it only reads.")
	}
	if e.VMArg != "" {
		why := missing(t.Schema, e.VMArg)
		if why == "" {
			return
		}
		e.because("By what its server says of its arguments no call names a machine at vm_arg: %s.", why)
	}
	for _, name := range candidates(t) {
		if e.Class == catalog.Mutating.String() {
			e.suggest("vm_arg = " + tomlString(name))
		}
	}
}

// hints are a tool's hints as its server wrote them.
func (t Tool) hints() string {
	var said []string
	for _, h := range []struct {
		name  string
		value *bool
	}{{"readOnlyHint", t.ReadOnly}, {"destructiveHint", t.Destructive}} {
		if h.value != nil {
			said = append(said, fmt.Sprintf("%s = %v", h.name, *h.value))
		}
	}
	return strings.Join(said, ", ")
}

func (d *drafting) done(sources []*Source) *Draft {
	out := &Draft{From: []string{}, Entries: []Drafted{}, Left: append([]string{}, d.left...)}
	for _, s := range sources {
		out.From = append(out.From, s.String())
	}
	for _, e := range d.byMatch {
		if e != nil {
			out.Entries = append(out.Entries, *e)
		}
	}
	slices.SortFunc(out.Entries, func(a, b Drafted) int { return cmp.Compare(a.Match, b.Match) })
	return out
}
