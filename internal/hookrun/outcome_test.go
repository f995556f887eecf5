package hookrun

import (
	"strings"
	"testing"

	"leaseguard.internal/internal/hookfile"
	"leaseguard.internal/internal/wire"
)

const allow = `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}`

func denies(reason string) string {
	return `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"` + reason + `"}}`
}

// TestM36_OutcomeTable: the rows of the outcome table of which a hook's words and
// status are all, as pure code.
func TestM36_OutcomeTable(t *testing.T) {
	const sure, none = "no push", "Hook h denied this tool call."
	for _, tc := range []struct {
		name   string
		e      ending
		status wire.HookStatus
		reason string
	}{
		{"row 1: aborted wins over a denial", ending{aborted: true, exit: 2}, wire.HookAborted, "with the call"},
		{"row 2: late", ending{late: 100e6, exit: -1, signal: "SIGKILL"}, wire.HookFailed, "100 ms"},
		{"W5: late with status 0", ending{late: 100e6, exit: 0}, wire.HookFailed, "100 ms"},
		{"W5: late with status 2", ending{late: 100e6, exit: 2, err2: []byte(sure)}, wire.HookDenied, sure},
		{"row 3: never ran", ending{err: errNoFile, exit: -1}, wire.HookFailed, errNoFile.Error()},
		{"W6: changed", ending{err: errChanged, exit: -1}, wire.HookChanged, "trusted"},
		{"row 4: status 2 with a reason", ending{exit: 2, err2: []byte(" \n" + sure + "\n")}, wire.HookDenied, sure},
		{"row 4: status 2 without one", ending{exit: 2, err2: []byte(" \ufeff\n")}, wire.HookDenied, none},
		{"M36: stdout is ignored on status 2", ending{exit: 2, out: []byte(allow)}, wire.HookDenied, none},
		{"status 2 with too much output", ending{exit: 2, overflow: true}, wire.HookDenied, none},
		{"row 5: another status", ending{exit: 1}, wire.HookFailed, "status 1"},
		{"row 5: signal", ending{exit: -1, signal: "SIGSEGV"}, wire.HookFailed, "SIGSEGV"},
		{"row 5: another status and a denial printed", ending{exit: 3, out: []byte(denies("x"))}, wire.HookFailed, "status 3"},
		{"row 6: nothing printed", ending{}, wire.HookAllowed, ""},
		{"row 6: blanks", ending{out: []byte(" \r\n\t\u00a0\ufeff")}, wire.HookAllowed, ""},
		{"W4: too much output", ending{overflow: true}, wire.HookFailed, "65536"},
		{"output held, a denial printed", ending{held: true, out: []byte(denies(sure))}, wire.HookDenied, sure},
		{"W5: late, a denial printed", ending{late: 1e9, out: []byte(denies(sure))}, wire.HookDenied, sure},
		{"output held, an allowance printed", ending{held: true, out: []byte(allow)}, wire.HookFailed, "holds its output"},
		{"output held", ending{held: true}, wire.HookFailed, "holds its output"},
		{"row 7: deny", ending{out: []byte(denies(sure))}, wire.HookDenied, sure},
		{"row 7: deny with blanks around", ending{out: []byte("\n " + denies(sure) + "\n")}, wire.HookDenied, sure},
		{"row 7: deny with an empty reason", ending{out: []byte(denies(""))}, wire.HookDenied, none},
		{"row 7: deny with an escape", ending{out: []byte(denies(`a\u0041\n`))}, wire.HookDenied, "aA"},
		{"row 8: allow grants nothing", ending{out: []byte(allow)}, wire.HookAllowed, ""},
		{"row 9: text", ending{out: []byte("ok")}, wire.HookFailed, "no decision"},
		{"F5: a line before the decision", ending{out: []byte("loading rules...\n" + denies(sure))}, wire.HookFailed, "no decision"},
		{"row 9: two decisions", ending{out: []byte(allow + denies(sure))}, wire.HookFailed, "no decision"},
		{"row 9: empty object", ending{out: []byte("{}")}, wire.HookFailed, "PreToolUse"},
		{"row 9: null", ending{out: []byte("null")}, wire.HookFailed, "no decision"},
		{"row 9: ask", ending{out: []byte(strings.Replace(allow, "allow", "ask", 1))}, wire.HookFailed, "ask"},
		{"row 9: Allow", ending{out: []byte(strings.Replace(allow, "allow", "Allow", 1))}, wire.HookFailed, "Allow"},
		{"row 9: unknown field within", ending{out: []byte(strings.Replace(allow, `"allow"`, `"allow","x":1`, 1))}, wire.HookFailed, "unknown key"},
		{"row 9: unknown field beside", ending{out: []byte(strings.Replace(allow, `{"hook`, `{"continue":true,"hook`, 1))}, wire.HookFailed, "unknown key"},
		{"row 9: another event", ending{out: []byte(strings.Replace(allow, "PreToolUse", "PostToolUse", 1))}, wire.HookFailed, "PreToolUse"},
		{"row 9: reason is a number", ending{out: []byte(strings.Replace(denies("x"), `"x"`, `5`, 1))}, wire.HookFailed, "no text"},
		{"row 9: reason is null", ending{out: []byte(strings.Replace(denies("x"), `"x"`, `null`, 1))}, wire.HookFailed, "no text"},
		{"a decision twice", ending{out: []byte(strings.Replace(allow, `"allow"`, `"deny","permissionDecision":"allow"`, 1))}, wire.HookFailed, "twice"},
		{"a key in other case", ending{out: []byte(strings.Replace(allow, "permissionDecision", "PermissionDecision", 1))}, wire.HookFailed, "unknown key"},
		{"no UTF-8", ending{out: []byte("\xff" + allow)}, wire.HookFailed, "no decision"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := judge("h", tc.e)
			want(t, r, tc.status, tc.reason)
			if tc.status == wire.HookAllowed && r.Reason != "" || r.Exit != tc.e.exit || r.Signal != tc.e.signal {
				t.Errorf("result %+v", r)
			}
		})
	}
}

// TestM37_ReasonIsBounded: what a hook says is valid text of bounded length.
func TestM37_ReasonIsBounded(t *testing.T) {
	r := judge("h", ending{exit: 2, err2: []byte(strings.Repeat("\xff\u00e9", MaxOutput/3))})
	if r.Status != wire.HookDenied || len(r.Reason) > maxReason || !strings.HasSuffix(r.Reason, "...") || strings.ToValidUTF8(r.Reason, "") != r.Reason {
		t.Errorf("%d bytes: %.50q", len(r.Reason), r.Reason)
	}
}

// FuzzDecide: only exactly one decision without anything beside it is one.
func FuzzDecide(f *testing.F) {
	f.Add([]byte(allow))
	f.Add([]byte(denies("x")))
	f.Add([]byte("{}"))
	f.Add([]byte(" "))
	f.Fuzz(func(t *testing.T, out []byte) {
		status, _ := decide("h", out)
		text := hookfile.Trim(string(out))
		if status == wire.HookAllowed && text != "" && (!strings.Contains(text, "PreToolUse") && !strings.Contains(text, `\u`) || text[0] != '{') {
			t.Errorf("%q is allowed", out)
		}
	})
}
