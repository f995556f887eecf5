// Package dialect translates between a host and the broker: a hook's payload
// into an Event, a verdict into the exact bytes and status that the gate hands
// to the host. One file per host. Everything here is pure.
//
// Parse is strict where a verdict depends on it and blind elsewhere: hosts add
// fields and values with every release, and a field that decides nothing may
// hold anything. What it refuses is the verdict `malformed`.
//
// Render fails closed: whatever it isn't sure that the host understands as a
// pass or an ask, it writes as a deny.
//
// What this package doesn't know: whether a payload is true. A process below
// the host can send any; who sent it is the broker's question to the kernel.
package dialect

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// ErrMalformed is what every error of Parse wraps, or strictjson's own. Who
// gets it answers with verdict.Malformed.
var ErrMalformed = errors.New("malformed payload")

// Kind says which question a host's event puts.
type Kind uint8

// The kinds. Zero is what no payload has said anything of yet.
const (
	Unknown      Kind = iota
	ToolCall          // a tool is about to run
	ConfigChange      // a settings file of the host changed
	Prompt            // a person's prompt, for the policy server
	Observer          // something has happened
)

// Event is what one payload says. Input is a part of the payload, not a copy.
type Event struct {
	Kind        Kind
	Name        string // of the event, in the host's own word
	HostSession string
	Tool        string
	Input       []byte   // the tool's input, one JSON object
	Reads       []string // what a tool of class Read names, absolute where Cwd is known
	ToolUse     string
	Agent       string // of a subagent
	AgentType   string
	Cwd         string
	Turn        string // which prompt of the conversation it belongs to; empty where the host doesn't say
	Source      string // SessionStart: what started it; ConfigChange: which settings
	Mode        string // the host's permission mode
	RanMS       int64  // PostToolUse: how long the tool ran, in milliseconds; zero when the host does not say
	Prompt      []byte // Prompt: what was said, one JSON value
	Result      []byte // of a tool that ran: what it gave, one JSON value; nil where the host doesn't say
	Model       string // that the host talks to, where it says so
}

// Class says whether a tool may run without a lease.
type Class uint8

// The classes. Mutator is the zero value: a tool is a mutator until its name is
// found among the few that read.
const (
	Mutator Class = iota
	Read
)

// BuiltinKind says what a host's own tool needs.
type BuiltinKind uint8

// The kinds of built-in tools.
const (
	NotBuiltin    BuiltinKind = iota // look into the catalog
	ChangesSelf                      // lease, and a checkpoint of this machine
	LeaseOnlyTool                    // lease
)

// host is what is known of one host. The zero value knows nothing: every tool is
// a mutator, and every answer a denial.
type host struct {
	parse     func(wire.Role, []byte) (Event, error)
	reads     map[string]Class
	builtins  map[string]BuiltinKind
	completed map[string]bool
	render    func(Event, verdict.Verdict) wire.Reply
	asks      bool
}

var hosts = map[wire.Host]host{
	wire.HostClaude: {parseClaude, claudeReads, claudeBuiltins, claudeCompleted, renderClaude, true},
	wire.HostCodex:  {parse: parseCodex, builtins: codexBuiltins, render: renderCodex},
	wire.HostPi:     {parse: parsePi, reads: piReads, builtins: piBuiltins, render: renderPi},
}

// Parse reads a payload.
func Parse(from wire.Host, role wire.Role, payload []byte) (Event, error) {
	if h, ok := hosts[from]; ok {
		return h.parse(role, payload)
	}
	return Event{}, fmt.Errorf("%w: host %d has no dialect in this version", ErrMalformed, from)
}

// Classify returns a tool's class. Names are compared byte by byte.
func Classify(from wire.Host, tool string) Class { return hosts[from].reads[tool] }

// Builtin returns what a host's own tool needs.
func Builtin(from wire.Host, tool string) BuiltinKind { return hosts[from].builtins[tool] }

// Tools lists the host's own tools that Classify or Builtin knows, by name.
func Tools(from wire.Host) []string {
	h := hosts[from]
	names := slices.AppendSeq(slices.Collect(maps.Keys(h.reads)), maps.Keys(h.builtins))
	slices.Sort(names)
	return names
}

// Completes says whether the host, or a person in it, finishes a tool's input
// after it was judged, so that another input may run.
func Completes(from wire.Host, tool string) bool { return hosts[from].completed[tool] }

// Asks says whether the host was measured to ask a person, or to block, when it
// is told to ask. For every other one an ask has to be a denial from the start.
func Asks(from wire.Host) bool { return hosts[from].asks }

// Render writes a verdict in the host's form. ev is the zero Event if the
// payload couldn't be parsed.
func Render(to wire.Host, role wire.Role, ev Event, v verdict.Verdict) wire.Reply {
	if role == wire.RoleObserve {
		return tell(to, ev, v)
	}
	if h, ok := hosts[to]; ok && role == wire.RoleDecide {
		return h.render(ev, v)
	}
	return deny(preToolUse, v)
}
