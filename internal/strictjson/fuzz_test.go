package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func seeds(f *testing.F) {
	for _, s := range []string{
		bash, `{}`, ` {"a":[1,{"b":null}]} `, `{"a":1,"a":2}`, `{"A":1,"a":2}`, `{"\u017fession_id":"x"}`,
		"\xef\xbb\xbf{}", `{}{}`, "{\"a\":\"\xff\"}", `{"a":"\ud83d"}`, `{"vm":["x",["y"]],"a":{"b":"c"}}`, nested(40),
	} {
		f.Add([]byte(s), "a.b[0]")
	}
}

// FuzzFields holds that whatever is accepted means the same to another parser.
func FuzzFields(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte, known string) {
		fields, err := Fields(data, known)
		if err != nil {
			if !errors.Is(err, ErrMalformed) || fields != nil {
				t.Fatalf("Fields = %v, %v", fields, err)
			}
			return
		}
		if !utf8.Valid(data) || Check(data) != nil {
			t.Fatal("Fields accepts what Check or UTF-8 refuses")
		}
		var other map[string]json.RawMessage
		if err := json.Unmarshal(data, &other); err != nil {
			t.Fatalf("encoding/json refuses it: %v", err)
		}
		if len(other) != len(fields) {
			t.Fatalf("%d keys, encoding/json has %d", len(fields), len(other))
		}
		for k, v := range fields {
			if !bytes.Equal(other[k], v) {
				t.Fatalf("key %q: %q, encoding/json has %q", k, v, other[k])
			}
			if k != known && strings.EqualFold(k, known) {
				t.Fatalf("key %q folds to %q", k, known)
			}
		}
	})
}

func FuzzLookup(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte, path string) {
		values, found, err := Lookup(data, path)
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatalf("error %v is not ErrMalformed", err)
		}
		if found != (len(values) > 0) || (err != nil && found) {
			t.Fatalf("found = %v with %q and %v", found, values, err)
		}
		for _, v := range values {
			if v == "" || !utf8.ValidString(v) {
				t.Fatalf("value %q", v)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte, _ string) {
		var v struct {
			A any    `json:"a"`
			S string `json:"session_id"`
		}
		if err := Decode(data, &v); err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatalf("error %v is not ErrMalformed", err)
		}
	})
}
