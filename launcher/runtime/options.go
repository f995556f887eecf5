package runtime

import (
	"slices"
	"strings"

	"leaseguard.internal/internal/verdict"
)

// Arity is how many values an option takes.
type Arity uint8

// Arities, as Claude's parser has them.
const (
	None     Arity = iota // --x
	One                   // --x v, --x=v: the next argument, whatever it looks like
	Optional              // --x, --x v, --x=v: the next argument if it begins with no dash
	Many                  // --x v w: all arguments up to the next that begins with a dash
)

// Option is a row of the table of one tested version.
type Option struct {
	Names  []string
	Arity  Arity
	Why    string // why it is refused; empty: it passes
	Hidden bool   // --help doesn't tell of it

	// Check says of a value why it is refused; nil: any passes.
	Check func(value string) (why string)
}

// rows are options that are alike, from lines with all names of one each.
func rows(lines string, like Option) []Option {
	var all []Option
	for line := range strings.Lines(lines) {
		if like.Names = strings.Fields(line); len(like.Names) > 0 {
			all = append(all, like)
		}
	}
	return all
}

// Table is what a version of a client understands.
type Table struct {
	Runtime  string
	Version  string
	Options  []Option
	Commands []string // words that make the client something else than a session
	Words    bool     // -xyz is one option, not -x with a value or flags behind it
	Alone    []string // commands of a session that runs without somebody at a terminal
}

// Use is what the arguments say of the session.
type Use struct {
	Unattended bool     // it runs without somebody at a terminal
	PromptFile bool     // a file stands in the place of the one that would hold the user's instructions
	Profiles   []string // configurations that are named
}

// CheckArgs reads the arguments as the client will and refuses what would
// silence the gate or start an agent beside the session, in every spelling. An
// option that isn't in the table is refused unless allow names it. Arguments
// are never changed.
func (t Table) CheckArgs(args, allow []string) (Use, error) {
	s := scan{table: t, allow: allow, args: slices.Clone(args)}
	for s.i < len(s.args) {
		if err := s.next(); err != nil {
			return Use{}, err
		}
	}
	return s.use, nil
}

// scan is one pass over the arguments.
type scan struct {
	table Table
	allow []string
	args  []string
	i     int
	many  bool // an option takes values until the next dash
	rest  bool // after --
	use   Use
}

// next reads one argument, with the value that belongs to it.
func (s *scan) next() error {
	a := s.args[s.i]
	// The client looks at its arguments in more than one way, so the name of a
	// refused option is refused also where it ought to be a value or a prompt.
	if o, ok := s.table.find(long(a)); ok && o.Why != "" {
		return s.table.refuseFlag(long(a), o.Why)
	}
	switch {
	case s.rest || !dashed(a):
		s.i++
		if s.many && !s.rest {
			return nil
		}
		return s.operand(a)
	case a == "--":
		s.i++
		s.rest = true
		return nil
	}
	s.many = false
	if s.table.Words || strings.HasPrefix(a, "--") {
		return s.option(a, long(a))
	}
	return s.short(a)
}

// option takes --x, --x=v or -x.
func (s *scan) option(a, name string) error {
	s.i++
	o, ok := s.table.find(name)
	switch {
	case !ok && slices.Contains(s.allow, name):
		return nil
	case !ok:
		return s.unknown(name)
	case o.Why != "":
		return s.table.refuseFlag(name, o.Why)
	}
	if slices.Contains(o.Names, "--print") {
		s.use.Unattended = true
	}
	if name == promptFile {
		s.use.PromptFile = true
	}
	if a != name { // the value stands behind the =, or right behind a short name
		return s.judge(o, name, strings.TrimPrefix(a[len(name):], "="))
	}
	switch o.Arity {
	case One:
		return s.value(o, name)
	case Optional:
		if s.i < len(s.args) && !dashed(s.args[s.i]) {
			return s.value(o, name)
		}
	case Many:
		s.many = true
	case None:
	}
	return nil
}

// value passes over an option's value; next has not seen it.
func (s *scan) value(o Option, name string) error {
	if s.i >= len(s.args) {
		return nil // the client complains of that
	}
	a := s.args[s.i]
	s.i++
	if o, ok := s.table.find(long(a)); ok && o.Why != "" {
		return s.table.refuseFlag(long(a), o.Why)
	}
	return s.judge(o, name, a)
}

// judge looks at the value of an option.
func (s *scan) judge(o Option, name, value string) error {
	if slices.Contains(o.Names, "--profile") {
		s.use.Profiles = append(s.use.Profiles, value)
	}
	if o.Check == nil {
		return nil
	}
	if why := o.Check(value); why != "" {
		return s.table.refuseFlag(name+" "+value, why)
	}
	return nil
}

// short takes -x, -xv and -xyz: the client reads the rest of a flag's argument
// as a new one, so that -p-bare is -p --bare.
func (s *scan) short(a string) error {
	if len(a) == 2 {
		return s.option(a, a)
	}
	name := a[:2]
	o, ok := s.table.find(name)
	if ok && o.Why == "" && o.Arity == None {
		if err := s.option(name, name); err != nil {
			return err
		}
		s.i--
		s.args[s.i] = "-" + a[2:]
		return nil
	}
	return s.option(a, name) // refuses it, or takes the rest as its value
}

// operand is a word that is no option: a prompt, or a command.
func (s *scan) operand(a string) error {
	if slices.Contains(s.table.Alone, a) {
		s.use.Unattended = true
	}
	if slices.Contains(s.table.Commands, a) {
		return refuse(verdict.FlagRefused, "launching "+s.table.Runtime+" with the command", a,
			"it starts no session that guard could hold, or agents outside of it", s.table.Runtime+" "+a+" without guard; a prompt needs more words than this one")
	}
	for _, scheme := range []string{"cc://", "cc+unix://"} {
		if strings.HasPrefix(a, scheme) {
			return refuse(verdict.FlagRefused, "launching "+s.table.Runtime+" with", scheme+"…", "it attaches to a session elsewhere", "launch without it")
		}
	}
	return nil
}

func (s *scan) unknown(name string) error {
	return s.table.refuseFlag(name, "it is not in guard's table of "+s.table.Runtime+" "+s.table.Version+"'s options",
		"launch without it, or add it to launch.allow_flags in guard.toml if you know that it changes no hook")
}

func (t Table) refuseFlag(name, why string, next ...string) error {
	return refuse(verdict.FlagRefused, "launching "+t.Runtime+" with", name, why, append(next, "launch without it")[0])
}

func (t Table) find(name string) (Option, bool) {
	for _, o := range t.Options {
		if slices.Contains(o.Names, name) {
			return o, true
		}
	}
	return Option{}, false
}

// long is the name of a long option, without the value behind its =.
func long(a string) string {
	if !strings.HasPrefix(a, "--") {
		return a
	}
	name, _, _ := strings.Cut(a, "=")
	return name
}

func dashed(a string) bool { return len(a) > 1 && a[0] == '-' }
