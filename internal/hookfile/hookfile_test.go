package hookfile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// with is a file whose only handler has these fields beside what it needs.
func with(fields string) string {
	return `{"version":1,"hooks":{"PreToolUse":[{"hooks":[{"id":"a","type":"command","command":"/x"` + fields + `}]}]}}`
}

// handler is a file whose only handler is this.
func handler(text string) string {
	return `{"version":1,"hooks":{"PreToolUse":[{"hooks":[` + text + `]}]}}`
}

func matching(matcher string) string {
	return `{"version":1,"hooks":{"PreToolUse":[{"matcher":` + matcher + `,"hooks":[]}]}}`
}

type parseCase struct {
	name, text string
	want       string // part of the refusal; empty: it is taken
}

func run(t *testing.T, cases []parseCase) {
	t.Helper()
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.text), User)
			var bad *Error
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && (!errors.As(err, &bad) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want a refusal with %q", err, tt.want)
			}
		})
	}
}

func TestM3_SizeIsBoundedAndTextIsUTF8(t *testing.T) {
	pad := func(n int) string {
		empty := `{"version":1,"hooks":{}}`
		return empty[:len(empty)-1] + strings.Repeat(" ", n-len(empty)) + "}"
	}
	run(t, []parseCase{
		{"exactly 1 MiB", pad(MaxFile), ""},
		{"one byte more", pad(MaxFile + 1), "exceeds 1 MiB"},
		// There a bad byte became U+FFFD: two readers would see two texts.
		{"bad UTF-8", with(`,"args":["` + "\xff" + `"]`), "line 1: no valid JSON"},
		{"half a surrogate pair", with(`,"args":["\ud83d"]`), "no valid JSON"},
		{"byte order mark", "\xef\xbb\xbf{}", "no valid JSON"},
	})
}

func TestM4_ObjectsAreStrict(t *testing.T) {
	run(t, []parseCase{
		{"root is a list", `[]`, "the file must be an object"},
		{"root is null", `null`, "must be an object"},
		{"root is text", `"x"`, "must be an object"},
		{"root is nothing", ``, "ends too early"},
		{"hooks is null", `{"version":1,"hooks":null}`, "hooks must be an object"},
		{"hooks is a list", `{"version":1,"hooks":[]}`, "hooks must be an object"},
		{"group is a list", `{"version":1,"hooks":{"PreToolUse":[[]]}}`, "a group must be an object"},
		{"handler is a number", handler(`1`), "a handler must be an object"},
		{"unknown key of the root", `{"version":1,"hooks":{},"policy":{}}`, `contains unknown field: "policy"`},
		{"unknown key of a group", `{"version":1,"hooks":{"PreToolUse":[{"hooks":[],"x":1}]}}`, `contains unknown field: "x"`},
		{"unknown key of a handler", with(`,"env":{}`), `contains unknown field: "env"`},
		{"key in another case", with(`,"ARGS":[]`), `contains unknown field: "ARGS"`},
		// There the last one won, silently.
		{"key twice", with(`,"timeoutMs":100,"timeoutMs":200`), "a key stands twice"},
		{"key twice in the root", `{"version":1,"version":1,"hooks":{}}`, "a key stands twice"},
		{"text behind it", `{"version":1,"hooks":{}} x`, "text after the end"},
		{"a second object", `{"version":1,"hooks":{}}{}`, "text after the end"},
		{"cut off", `{"version":1,"hooks":{`, "ends too early"},
		{"very deep", with(`,"args":[` + strings.Repeat("[", 20000)), "must be a string"},
	})
}

func TestM5_RootIsVersion1WithPreToolUseAlone(t *testing.T) {
	run(t, []parseCase{
		{"no events", `{"version":1,"hooks":{}}`, ""},
		{"null event", `{"version":1,"hooks":{"PreToolUse":null}}`, ""},
		{"no groups", `{"hooks":{"PreToolUse":[]},"version":1}`, ""},
		{"1.0 is the number 1", `{"version":1.0,"hooks":{}}`, ""},
		{"text", `{"version":"1","hooks":{}}`, "version must be 1"},
		{"missing", `{"hooks":{}}`, "version must be 1"},
		{"another", `{"version":2,"hooks":{}}`, "version must be 1"},
		{"true", `{"version":true,"hooks":{}}`, "version must be 1"},
		{"no hooks", `{"version":1}`, "hooks must be an object"},
		{"event is an object", `{"version":1,"hooks":{"PreToolUse":{}}}`, "must be an array"},
		{"another event", `{"version":1,"hooks":{"Stop":[]}}`, `unknown field: "Stop"`},
		{"event in another case", `{"version":1,"hooks":{"preToolUse":[]}}`, `unknown field: "preToolUse"`},
	})
}

func TestM6_GroupHasHooksAndMaybeAMatcher(t *testing.T) {
	run(t, []parseCase{
		{"no handlers", matching(`"Bash"`), ""},
		{"no matcher", with(``), ""},
		{"null matcher", matching(`null`), "matcher must be a string"},
		{"empty matcher", matching(`""`), "matcher is empty"},
		{"no hooks", `{"version":1,"hooks":{"PreToolUse":[{"matcher":"Bash"}]}}`, "hooks of a group must be an array"},
		{"null hooks", `{"version":1,"hooks":{"PreToolUse":[{"hooks":null}]}}`, "hooks must be an array"},
	})
	f, err := Parse([]byte(with(``)), User)
	if err != nil || f.Definitions[0].Matcher != "*" {
		t.Errorf("without a matcher: %+v, %v", f, err)
	}
	// A matcher behind its handlers is theirs all the same.
	f, err = Parse([]byte(`{"version":1,"hooks":{"PreToolUse":[{"hooks":[{"id":"a","type":"command","command":"/x"}],"matcher":"Bash"}]}}`), User)
	if err != nil || f.Definitions[0].Matcher != "Bash" {
		t.Errorf("matcher behind the handlers: %+v, %v", f, err)
	}
}

func TestM7_MatcherGrammar(t *testing.T) {
	quote := func(s string) string { return string(appendString(nil, s)) }
	var cases []parseCase
	for _, m := range []string{
		"*", "Bash", "Bash|Write", "mcp__github__*", "a*|*", "B ash", "a|a", "?", "[a-z]", "!Bash", "é*", "tool.name",
		strings.Repeat("a", 1024), strings.Repeat("😀", 512),
	} {
		cases = append(cases, parseCase{"accept " + verdictName(m), matching(quote(m)), ""})
	}
	for _, m := range []string{
		"", " ", "|", "Bash|", "|Bash", "a||b", " Bash", "Bash ", "Bash | Write", "B*sh", "*Bash", "**", "a**", "*x*", "*|**",
		"\u00a0Bash", "Bash\ufeff", "Bash|\t", "\u2003x", "a\x00b", strings.Repeat("a", 1025), strings.Repeat("😀", 512) + "a",
	} {
		cases = append(cases, parseCase{"reject " + verdictName(m), matching(quote(m)), "matcher "})
	}
	run(t, cases)
}

func verdictName(s string) string { return fmt.Sprintf("%.20q of %d", s, len(s)) }

func TestM8_Handler(t *testing.T) {
	long := func(n int) string { return strings.Repeat("a", n) }
	id := func(s string) string { return handler(`{"id":` + s + `,"type":"command","command":"/x"}`) }
	command := func(s string) string { return handler(`{"id":"a","type":"command","command":` + s + `}`) }
	run(t, []parseCase{
		{"id of 128", id(`"` + long(128) + `"`), ""},
		{"id of 129", id(`"` + long(129) + `"`), "id is longer"},
		{"id of 64 pairs", id(`"` + strings.Repeat("😀", 64) + `"`), ""},
		{"id of 65 pairs", id(`"` + strings.Repeat("😀", 65) + `"`), "id is longer"},
		{"blank id", id(`" \u00a0"`), "id is empty"},
		{"NUL in the id", id(`"a\u0000"`), "NUL"},
		{"id is a number", id(`1`), "id must be a string"},
		{"no id", handler(`{"type":"command","command":"/x"}`), "needs id"},
		{"no type", handler(`{"id":"a","command":"/x"}`), "needs id, type"},
		{"another type", handler(`{"id":"a","type":"http","command":"/x"}`), "type must be"},
		{"no command", handler(`{"id":"a","type":"command"}`), "needs id, type and command"},
		{"shell line", command(`"echo x"`), "absolute path"},
		{"relative", command(`"./x"`), "absolute path"},
		{"home", command(`"~/x"`), "absolute path"},
		{"blank command", command(`" "`), "command is empty"},
		{"NUL in the command", command(`"/a\u0000"`), "NUL"},
		{"command of 8192", command(`"/` + long(8191) + `"`), ""},
		{"command of 8193", command(`"/` + long(8192) + `"`), "command is longer"},
		{"a command that isn't there", command(`"/no/such/file"`), ""},
		{"empty argument", with(`,"args":["",""]`), ""},
		{"null args", with(`,"args":null`), "args must be an array"},
		{"argument is a number", with(`,"args":[1]`), "must be a string"},
		{"argument of 8192", with(`,"args":["` + long(8192) + `"]`), ""},
		{"argument of 8193", with(`,"args":["` + long(8193) + `"]`), "one of args is longer"},
		{"NUL in an argument", with(`,"args":["\u0000"]`), "NUL"},
		{"1000 arguments", with(`,"args":["a"` + strings.Repeat(`,"a"`, 999) + `]`), ""},
		{"1001 arguments", with(`,"args":["a"` + strings.Repeat(`,"a"`, 1000) + `]`), "more than 1000"},
		{"timeout of 100", with(`,"timeoutMs":100`), ""},
		{"timeout of 30000", with(`,"timeoutMs":30000`), ""},
		{"timeout of 3000.0", with(`,"timeoutMs":3000.0`), ""},
		{"timeout of 3e3", with(`,"timeoutMs":3e3`), ""},
		{"timeout of 99", with(`,"timeoutMs":99`), "timeoutMs must be"},
		{"timeout of 30001", with(`,"timeoutMs":30001`), "timeoutMs must be"},
		{"timeout as text", with(`,"timeoutMs":"3000"`), "timeoutMs must be"},
		{"timeout null", with(`,"timeoutMs":null`), "timeoutMs must be"},
		{"timeout of 1.5", with(`,"timeoutMs":1.5`), "timeoutMs must be"},
		{"timeout of 100.5", with(`,"timeoutMs":100.5`), "timeoutMs must be"},
		{"timeout beyond numbers", with(`,"timeoutMs":1e999`), "timeoutMs must be"},
		{"not enabled", with(`,"enabled":false`), ""},
		{"enabled as text", with(`,"enabled":"false"`), "enabled must be true or false"},
		{"enabled null", with(`,"enabled":null`), "enabled must be true or false"},
		{"onError deny", with(`,"onError":"deny"`), ""},
		{"onError allow", with(`,"onError":"allow"`), ""},
		{"onError ask", with(`,"onError":"ask"`), "onError must be"},
		{"onError null", with(`,"onError":null`), "onError must be a string"},
		{"equal ids", handler(`{"id":"same","type":"command","command":"/x"},{"id":"same","type":"command","command":"/y"}`), `Duplicate id "same"`},
		{"equal ids, one disabled", handler(`{"id":"same","type":"command","command":"/x","enabled":false},{"id":"same","type":"command","command":"/y"}`), `Duplicate id "same"`},
	})
}

func handlers(n int, more string) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"id":"h%d","type":"command","command":"/x"%s}`, i, more))
	}
	return strings.Join(list, ",")
}

func TestM9_AtMost128HandlersAndAnyNumberOfGroups(t *testing.T) {
	run(t, []parseCase{
		{"128", handler(handlers(128, "")), ""},
		{"129", handler(handlers(129, "")), "more than 128 handlers"},
		{"129, disabled", handler(handlers(129, `,"enabled":false`)), "more than 128 handlers"},
		{"2000 groups", `{"version":1,"hooks":{"PreToolUse":[{"hooks":[]}` + strings.Repeat(`,{"hooks":[]}`, 1999) + `]}}`, ""},
	})
}

func TestM10_DefaultsAreFilledInAndTextsStay(t *testing.T) {
	f, err := Parse([]byte(`{"version":1,"hooks":{"PreToolUse":[
		{"matcher":"Bash|mcp__github__*","hooks":[{"id":" a ","type":"command","command":"/x "}]},
		{"hooks":[{"id":"b","type":"command","command":"/y","args":[" "],"timeoutMs":100,"enabled":false,"onError":"allow"}]}]}}`), Project)
	if err != nil {
		t.Fatal(err)
	}
	want := []Definition{
		{ID: " a ", Source: Project, Matcher: "Bash|mcp__github__*", Command: "/x ", Args: []string{}, TimeoutMS: 3000, Enabled: true, OnError: Deny, Line: 2},
		{ID: "b", Source: Project, Matcher: "*", Command: "/y", Args: []string{" "}, TimeoutMS: 100, OnError: Allow, Line: 3},
	}
	if d := cmp.Diff(want, f.Definitions); d != "" {
		t.Error(d)
	}
	if f, err := Parse([]byte(`{"version":1,"hooks":{"PreToolUse":[]}}`), User); err != nil || len(f.Definitions) != 0 {
		t.Errorf("no groups: %+v, %v", f, err)
	}
}

func TestM11_OneBadItemRefusesTheFile(t *testing.T) {
	text := "{\n\"version\":1,\n\"hooks\":{\"PreToolUse\":[\n{\"hooks\":[" + handlers(3, "") + "]},\n\n{\"hooks\":[{\"id\":\"x\",\"type\":\"command\",\n\"command\":\"x\"}]}]}}"
	f, err := Parse([]byte(text), User)
	if len(f.Definitions) != 0 || err == nil || err.Error() != "line 7: command must be an absolute path" {
		t.Errorf("%d definitions, %v", len(f.Definitions), err)
	}
}

var hashed = Definition{
	ID: "x", Source: Project, Matcher: "Bash|mcp__github__*", Command: "/usr/bin/jq",
	Args: []string{"a\nb", "\"q\"\\", "😀", ""}, TimeoutMS: 3000, Enabled: true, OnError: Deny,
}

const hashedIdentity = "workspace:/srv/é\u2028\x01\x7f<&>"
