// Package catalog is the operator's list of tools: which are read-only, and
// which argument of the others names the machine that they change.
//
// An entry matches a tool's name byte for byte, or everything that begins with
// it when it ends in *. An exact entry beats a prefix, a longer prefix a
// shorter one; two that match equally are an error, so the order in the file
// never decides. A tool without an entry is unlisted, and what then holds is
// checkpoint.unlisted's to say.
//
// What an entry says of a tool is believed. A catalog that calls a changing
// tool read-only lets it through on a lease alone; only the hosts' own changing
// tools are refused as read-only here.
package catalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/verdict"
)

// Class is what the catalog says of a tool.
type Class uint8

// The classes. Unlisted is the zero value and grants nothing.
const (
	Unlisted Class = iota
	Mutating
	ReadOnly
)

// String returns the class as guard.toml writes it.
func (c Class) String() string {
	switch c {
	case Mutating:
		return "mutating"
	case ReadOnly:
		return "read_only"
	default:
		return "unlisted"
	}
}

// How a machine is named.
const (
	ByName       = "name"
	ByIdentifier = "identifier"
)

const (
	// MaxTargets is how many machines one call may name. Each needs a
	// checkpoint before the call passes.
	MaxTargets = 16
	// MaxReuse is the oldest that a reused checkpoint may be.
	MaxReuse = 24 * time.Hour
	// maxName bounds the name of a machine, in bytes.
	maxName = 1024
)

// Entry is one [[tool]] of guard.toml.
type Entry struct {
	Match  string        // tool's name, or a prefix with one * at its end
	Class  Class         // Mutating or ReadOnly
	VMArg  string        // where in the arguments the machine stands: a.b[0]
	VM     []string      // machines by name, instead of VMArg
	VMKind string        // ByName (also when empty) or ByIdentifier
	VPG    string        // the only group that counts; empty: all that hold the machine
	Reuse  time.Duration // how old a confirmed checkpoint may be
	Line   int           // where it stands in guard.toml
}

// Target is a machine that a call changes.
type Target struct {
	Name  string
	Kind  string // ByName or ByIdentifier
	VPG   string
	Reuse time.Duration
}

// Catalog is a checked list of entries. A nil one has none.
type Catalog struct {
	entries  []Entry // by Match
	exact    map[string]Entry
	prefixes []prefix // longest first
}

type prefix struct {
	text  string
	entry Entry
}

// New checks entries and makes a catalog of copies. The error is an *Error.
func New(entries []Entry) (*Catalog, error) {
	c := &Catalog{exact: make(map[string]Entry, len(entries))}
	lines := make(map[string]int, len(entries))
	for _, e := range entries {
		e.VM = slices.Clone(e.VM)
		e.VMKind = cmp.Or(e.VMKind, ByName)
		if err := e.check(); err != nil {
			return nil, err
		}
		if line, twice := lines[e.Match]; twice {
			return nil, e.fault("match", "%s is listed at line %d already, and equal entries have no order; remove one", verdict.Object(e.Match), line)
		}
		lines[e.Match] = e.Line
		c.entries = append(c.entries, e)
		if text, ok := strings.CutSuffix(e.Match, "*"); ok {
			c.prefixes = append(c.prefixes, prefix{text, e})
		} else {
			c.exact[e.Match] = e
		}
	}
	slices.SortFunc(c.entries, func(a, b Entry) int { return strings.Compare(a.Match, b.Match) })
	slices.SortFunc(c.prefixes, func(a, b prefix) int { return len(b.text) - len(a.text) })
	return c, nil
}

// Covers says whether an entry with that Match is about a tool, or would be if no
// better one were.
func Covers(match, tool string) bool {
	text, isPrefix := strings.CutSuffix(match, "*")
	return match == tool || isPrefix && strings.HasPrefix(tool, text)
}

// Find returns the entry of a tool.
func (c *Catalog) Find(tool string) (Entry, bool) {
	if c == nil {
		return Entry{}, false
	}
	if e, ok := c.exact[tool]; ok {
		return e, true
	}
	for _, p := range c.prefixes {
		if strings.HasPrefix(tool, p.text) {
			return p.entry, true
		}
	}
	return Entry{}, false
}

// Targets lists the machines that a call with this input changes, each once.
// None is no error: the arguments name no machine. An input that can't be read
// for certain is one.
func (e Entry) Targets(input []byte) ([]Target, error) {
	names := e.VM
	if e.VMArg != "" {
		var err error
		if names, _, err = strictjson.Lookup(input, e.VMArg); err != nil {
			return nil, err
		}
	}
	var targets []Target
	for _, name := range names {
		t := Target{Name: name, Kind: cmp.Or(e.VMKind, ByName), VPG: e.VPG, Reuse: e.Reuse}
		if slices.Contains(targets, t) {
			continue
		}
		if len(name) > maxName {
			return nil, fmt.Errorf("reading %s: the name of a machine has %d bytes, the limit is %d; no machine is called so", verdict.Object(e.VMArg), len(name), maxName)
		}
		if len(targets) == MaxTargets {
			return nil, fmt.Errorf("reading %s: more than %d machines in one call; split the call", verdict.Object(e.VMArg), MaxTargets)
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// Digest is the catalog's version: equal for equal entries, whatever their
// order and lines.
func (c *Catalog) Digest() [sha256.Size]byte {
	b := []byte("leaseguard catalog 1\n")
	if c == nil {
		return sha256.Sum256(b)
	}
	for _, e := range c.entries {
		b = append(b, byte(e.Class))
		b = binary.AppendVarint(b, int64(e.Reuse))
		b = binary.AppendUvarint(b, uint64(len(e.VM)))
		for _, s := range append([]string{e.Match, e.VMArg, e.VMKind, e.VPG}, e.VM...) {
			b = binary.AppendUvarint(b, uint64(len(s)))
			b = append(b, s...)
		}
	}
	return sha256.Sum256(b)
}
