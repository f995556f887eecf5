package strictjson

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var hookKeys = []string{"hook_event_name", "session_id", "tool_name", "tool_input"}

const bash = `{"hook_event_name":"PreToolUse","session_id":"s1","tool_name":"Bash","tool_input":{"command":"touch /tmp/x"}}`

func nested(levels int) string {
	return strings.Repeat(`{"a":`, levels-1) + `{}` + strings.Repeat(`}`, levels-1)
}

func TestCheck(t *testing.T) {
	good := map[string]string{
		"object":             bash,
		"empty object":       `{}`,
		"white space":        " \t\r\n{} \n",
		"escaped NUL":        `{"a":"b\u0000c"}`,
		"surrogate pair":     `{"a":"\ud83d\ude00"}`,
		"keys that fold":     `{"a":1,"A":2}`,
		"same key elsewhere": `{"a":{"b":1},"c":{"b":1}}`,
		"deepest":            nested(MaxDepth),
		"deepest of lists":   `{"a":` + strings.Repeat("[", MaxDepth-1) + strings.Repeat("]", MaxDepth-1) + `}`,
	}
	for name, in := range good {
		t.Run(name, func(t *testing.T) {
			if err := Check([]byte(in)); err != nil {
				t.Errorf("Check(%.80q) = %v", in, err)
			}
		})
	}
	bad := map[string]string{
		"empty":               ``,
		"blank":               " \n",
		"array":               `[]`,
		"null":                `null`,
		"string":              `"x"`,
		"cut":                 bash[:len(bash)-1],
		"raw NUL":             "{\"a\":\"b\x00c\"}",
		"NUL after":           "{}\x00",
		"invalid UTF-8":       "{\"a\":\"\xff\"}",
		"invalid UTF-8 key":   "{\"\xff\":1}",
		"lone surrogate":      `{"a":"\ud83d"}`,
		"comment":             `{}//x`,
		"trailing comma":      `{"a":1,}`,
		"single quotes":       `{'a':1}`,
		"NaN":                 `{"a":NaN}`,
		"leading zero":        `{"a":01}`,
		"twice":               `{"a":1,"a":2}`,
		"twice by escape":     `{"a":1,"\u0061":2}`,
		"twice below":         `{"x":[{"a":1,"a":2}]}`,
		"too deep":            nested(MaxDepth + 1),
		"too many values":     `{"a":[` + strings.Repeat("0,", MaxTokens) + `0]}`,
		"too deep by lists":   `{"a":` + strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth) + `}`,
		"far too deep":        strings.Repeat(`{"a":`, 1<<20),
		"other white space":   "\u00a0{}",
		"form feed":           "\f{}",
		"UTF-16":              "{\x00}\x00",
		"line feed in string": "{\"a\":\"\n\"}",
	}
	for name, in := range bad {
		t.Run(name, func(t *testing.T) {
			if err := Check([]byte(in)); !errors.Is(err, ErrMalformed) {
				t.Errorf("Check(%.80q) = %v, want ErrMalformed", in, err)
			}
		})
	}
}

// What a lenient guard let through as a broken payload.
func TestP1_ExactlyOneObject(t *testing.T) {
	for name, in := range map[string]string{
		"byte order mark": "\xef\xbb\xbf" + bash,
		"trailing brace":  bash + "}",
		"two objects":     `{"tool_name":"Read","tool_input":{}}` + "\n" + bash,
		"raw NUL":         bash + "\x00",
	} {
		t.Run(name, func(t *testing.T) {
			fields, err := Fields([]byte(in), hookKeys...)
			if !errors.Is(err, ErrMalformed) || fields != nil {
				t.Errorf("Fields = %v, %v; want ErrMalformed and no fields", fields, err)
			}
		})
	}
}

// An escaped NUL is a character like any other: nothing is cut off.
func TestP2_EscapedNULStays(t *testing.T) {
	values, found, err := Lookup([]byte(`{"command":"echo a\u0000rm b"}`), "command")
	if err != nil || !found || values[0] != "echo a\x00rm b" {
		t.Errorf("Lookup = %q, %v, %v", values, found, err)
	}
}

func TestP5_AmbiguousKeys(t *testing.T) {
	for name, in := range map[string]string{
		"upper case": `{"hook_event_name":"PreToolUse","session_id":"s1","tool_name":"Bash","TOOL_NAME":"Read","tool_input":{"command":"id"}}`,
		"twice":      `{"hook_event_name":"PreToolUse","session_id":"s1","tool_name":"Bash","tool_name":"Read","tool_input":{"command":"id"}}`,
		"long s":     `{"hook_event_name":"PreToolUse","session_id":"s1","\u017fession_id":"s2","tool_name":"Bash","tool_input":{"command":"id"}}`,
		"only other": `{"hook_event_name":"PreToolUse","session_id":"s1","Tool_Name":"Bash","tool_input":{}}`,
		"raw long s": `{"hook_event_name":"PreToolUse","` + "\u017f" + `ession_id":"s2","tool_name":"Bash","tool_input":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Fields([]byte(in), hookKeys...); !errors.Is(err, ErrMalformed) {
				t.Errorf("Fields = %v, want ErrMalformed", err)
			}
		})
	}
	if _, err := Fields([]byte(bash), hookKeys...); err != nil {
		t.Errorf("the plain payload: %v", err)
	}
}

func TestFields(t *testing.T) {
	in := "{ \"a\" : \"x\" , \"b\":{\"c\": [1, 2] },\"n\":null ,\"k\\u0041\":\t-1.5e3\n, \"A\":true}"
	got, err := Fields([]byte(in), "b", "none")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]byte{
		"a": []byte(`"x"`), "b": []byte(`{"c": [1, 2] }`), "n": []byte(`null`),
		"kA": []byte(`-1.5e3`), "A": []byte(`true`),
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestErrorsAreBoundedAndQuoted(t *testing.T) {
	key := "tool\u202ename\n" + strings.Repeat("k", 4000)
	quoted, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	in := `{` + string(quoted) + `:1,` + string(quoted) + `:2}`
	_, err = Fields([]byte(in))
	if err == nil || len(err.Error()) > 300 || strings.ContainsAny(err.Error(), "\n\u202e") {
		t.Errorf("error is not bounded and quoted: %v", err)
	}
}

func TestDecode(t *testing.T) {
	type inner struct {
		N int64 `json:"n"`
	}
	type frame struct {
		Verb  string  `json:"verb"`
		TTL   *int64  `json:"ttl_s,omitempty"`
		Inner *inner  `json:"inner,omitempty"`
		List  []inner `json:"list,omitempty"`
	}
	t.Run("good", func(t *testing.T) {
		var f frame
		err := Decode([]byte(`{"verb":"verify","ttl_s":0,"inner":null,"list":[{"n":7}]}`), &f)
		zero := int64(0)
		if d := cmp.Diff(frame{Verb: "verify", TTL: &zero, List: []inner{{N: 7}}}, f); err != nil || d != "" {
			t.Error(err, d)
		}
	})
	for name, in := range map[string]string{
		"unknown key":       `{"verb":"x","more":1}`,
		"folded key":        `{"Verb":"x"}`,
		"folded key below":  `{"inner":{"N":1}}`,
		"unknown key below": `{"list":[{"n":1},{"m":1}]}`,
		"wrong type":        `{"verb":1}`,
		"fraction":          `{"ttl_s":1.5}`,
		"too large":         `{"ttl_s":9223372036854775808}`,
		"string for number": `{"ttl_s":"1"}`,
		"twice":             `{"verb":"x","verb":"y"}`,
		"array":             `[]`,
		"garbage after":     `{}x`,
	} {
		t.Run(name, func(t *testing.T) {
			if err := Decode([]byte(in), new(frame)); !errors.Is(err, ErrMalformed) {
				t.Errorf("Decode(%s) = %v, want ErrMalformed", in, err)
			}
		})
	}
}

func BenchmarkFields(b *testing.B) {
	for name, size := range map[string]int{"1KiB": 1 << 10, "1MiB": 1 << 20} {
		in := []byte(strings.Replace(bash, "touch", strings.Repeat("x", size), 1))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				if _, err := Fields(in, hookKeys...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestDecodeLong: what is too long for a payload may be read from somebody who
// is trusted with it, as strictly.
func TestDecodeLong(t *testing.T) {
	var v struct {
		A []int `json:"a"`
	}
	text := []byte(`{"a":[` + strings.Repeat("0,", MaxTokens) + `0]}`)
	if err := Decode(text, &v); !errors.Is(err, ErrMalformed) {
		t.Errorf("Decode = %v, want ErrMalformed", err)
	}
	if err := DecodeLong(text, &v, 2*MaxTokens); err != nil || len(v.A) != MaxTokens+1 {
		t.Errorf("DecodeLong = %v with %d values", err, len(v.A))
	}
	for _, bad := range []string{`{"a":[],"a":[]}`, `{"A":[]}`, `{"a":[]}x`, string(text) + " 1"} {
		if err := DecodeLong([]byte(bad), &v, 2*MaxTokens); !errors.Is(err, ErrMalformed) {
			t.Errorf("%.20s: %v, want ErrMalformed", bad, err)
		}
	}
}
