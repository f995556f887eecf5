package verdict

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxReason is the most bytes a reason has.
const MaxReason = 1000

// maxObject bounds one quoted object, so that a 4,000-byte tool name can't push
// cause and remedy out of the reason.
const maxObject = 160

// Reason writes the one template that every deny and ask uses, the same in JSON
// and on stderr:
//
//	guard: <code>: <what> <object>: <cause>. Next: <next>
//
// object comes from Object or is a constant; a cause that is too long is cut,
// never the remedy.
func Reason(code Code, what, object, cause, next string) string {
	head := "guard: " + string(code) + ": " + what
	if object != "" {
		head += " " + object
	}
	tail := ""
	if next != "" {
		tail = ". Next: " + Clean(next)
	}
	cause = strings.TrimRight(Clean(cause), ". ")
	if cause != "" {
		head += ": "
	}
	room := MaxReason - len(head) - len(tail)
	return Cut(head+Cut(cause, max(room, 0))+tail, MaxReason)
}

// Object quotes text that a peer chose, and cuts it to a bounded length.
func Object(s string) string {
	q := strconv.QuoteToASCII(s)
	if len(q) <= maxObject {
		return q
	}
	// Cutting inside an escape would leave a dangling backslash.
	cut := strings.TrimRight(q[:maxObject-4], `\`)
	return cut + `..."`
}

// Clean makes text safe for one line of a terminal or log: control and format
// characters and invalid UTF-8 become blanks.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, s)
}

// Cut shortens s to at most n bytes at a rune boundary and marks the cut.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const mark = "..."
	if n <= len(mark) {
		return s[:0]
	}
	end := n - len(mark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}
