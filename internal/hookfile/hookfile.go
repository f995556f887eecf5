// Package hookfile reads hooks.json: the definitions of policy hooks that a user
// or a project brings along. It is pure: bytes in, definitions or one error with
// its line out.
//
// The format is that of files which exist already (version 1, docs/policy.md), so
// limits are counted as their first reader counts them: lengths in UTF-16 units,
// white space as in JavaScript. One wrong thing refuses the whole file: what was
// half understood would protect half. Beyond that format a handler may have
// onError, "deny" (the default) or "allow": what its failure means.
//
// What is refused here and was taken there: a key that stands twice in one object,
// text that isn't UTF-8, and halves of surrogate pairs. Two readers may disagree
// about them, and one of them is the operator who has looked at the file.
//
// Trust is given to an identity: a definition of a project means something only
// in that project. Key names a definition within an identity; Hash names it
// together with the bytes of all that it runs.
package hookfile

import (
	"strings"
)

// Source is whose file a definition comes from.
type Source string

// The sources.
const (
	User    Source = "user"    // hooks.json beside guard.toml
	Project Source = "project" // .guard/hooks.json of a session's directory
)

// ProjectFile is where a project has its definitions, relative to its directory.
const ProjectFile = ".guard/hooks.json"

// UserIdentity is the identity of definitions of the user's file; they hold in
// every session.
const UserIdentity = "user"

// ProjectIdentity is the identity of the definitions of the project in a
// directory.
func ProjectIdentity(dir string) string { return "workspace:" + dir }

// Bounds of a file.
const (
	MaxFile     = 1 << 20 // bytes
	MaxHandlers = 128     // disabled ones included

	maxMatcher = 1024
	maxID      = 128
	maxText    = 8192 // of a command or an argument
	maxArgs    = 1000

	minTimeout     = 100 // milliseconds
	maxTimeout     = 30_000
	defaultTimeout = 3000
)

// OnError says what a hook's failure means for the call.
type OnError string

// What a failure can mean. Deny is also what the zero value means.
const (
	Deny  OnError = "deny"
	Allow OnError = "allow"
)

// Definition is one handler with the matcher of its group, every default filled
// in. Its texts are as they stand in the file.
type Definition struct {
	ID        string   `json:"id"`
	Source    Source   `json:"source"`
	Matcher   string   `json:"matcher"`
	Command   string   `json:"command"` // absolute path
	Args      []string `json:"args"`
	TimeoutMS int64    `json:"timeout_ms"`
	Enabled   bool     `json:"enabled"`
	OnError   OnError  `json:"on_error"`
	Line      int      `json:"line"` // in its file, where it begins
}

// File is what a file holds, in its order.
type File struct{ Definitions []Definition }

// Allows says whether the call goes on when the hook fails.
func (d Definition) Allows() bool { return d.OnError == Allow }

// Match says whether the definition is for a tool of that name. Case counts, and
// nothing but a star at a token's end has a meaning of its own.
func (d Definition) Match(tool string) bool {
	for token := range strings.SplitSeq(d.Matcher, "|") {
		prefix, star := strings.CutSuffix(token, "*")
		if star && strings.HasPrefix(tool, prefix) || !star && token == tool {
			return true
		}
	}
	return false
}

// matcherFault says what is wrong with a matcher; "" when nothing is.
func matcherFault(m string) string {
	switch {
	case blank(m):
		return "matcher is empty"
	case units(m) > maxMatcher:
		return "matcher is longer than 1024 characters"
	case strings.ContainsRune(m, 0):
		return "matcher has a NUL character"
	}
	for token := range strings.SplitSeq(m, "|") {
		prefix, _ := strings.CutSuffix(token, "*")
		if token == "" || Trim(token) != token || strings.Contains(prefix, "*") {
			return "matcher is invalid; write names with | between them, each exact, or a prefix with one * at its end, without white space around"
		}
	}
	return ""
}

// units counts as JavaScript does.
func units(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r > 0xffff {
			n++
		}
	}
	return n
}

// Trim takes away the white space around a text, as JavaScript's trim does.
func Trim(s string) string { return strings.TrimFunc(s, space) }

func blank(s string) bool { return Trim(s) == "" }

// space is white space as JavaScript's trim sees it.
func space(r rune) bool {
	switch r {
	case '\t', '\n', '\v', '\f', '\r', ' ', 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000, 0xfeff:
		return true
	}
	return r >= 0x2000 && r <= 0x200a
}
