package recovery

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"leaseguard.internal/broker/token"
)

const good = `{"token":"` + tokenText + `"}`

// hostileArguments are what decode refuses.
var hostileArguments = map[string]string{
	"null":                `null`,
	"a string":            `"` + tokenText + `"`,
	"a list":              `["` + tokenText + `"]`,
	"a number":            `1`,
	"unknown":             `{"session":"s1"}`,
	"unknown beside":      `{"token":"` + tokenText + `","ttl":300}`,
	"folded":              `{"Token":"` + tokenText + `"}`,
	"folded, long k":      `{"to\u212aen":"` + tokenText + `"}`,
	"twice":               `{"token":"` + tokenText + `","token":"` + tokenText + `"}`,
	"twice, escaped":      `{"token":"` + tokenText + `","\u0074oken":"x"}`,
	"duplicate deep":      `{"token":{"a":1,"a":2}}`,
	"token null":          `{"token":null}`,
	"token empty":         `{"token":""}`,
	"token a list":        `{"token":["` + tokenText + `"]}`,
	"token an object":     `{"token":{}}`,
	"token a number":      `{"token":1}`,
	"token false":         `{"token":false}`,
	"without its prefix":  `{"token":"` + tokenText[4:] + `"}`,
	"other prefix":        `{"token":"LGT_` + tokenText[4:] + `"}`,
	"too short":           `{"token":"` + tokenText[:46] + `"}`,
	"too long":            `{"token":"` + tokenText + `A"}`,
	"padded":              `{"token":"` + tokenText + `="}`,
	"blank before":        `{"token":" ` + tokenText + `"}`,
	"newline after":       `{"token":"` + tokenText + `\n"}`,
	"newline inside":      `{"token":"` + tokenText[:20] + `\n` + tokenText[20:] + `"}`,
	"stray last bits":     `{"token":"` + tokenText[:46] + `9"}`,
	"other alphabet":      `{"token":"lgt_+` + tokenText[5:] + `"}`,
	"very long":           `{"token":"` + strings.Repeat("A", 100_000) + `"}`,
	"invalid UTF-8":       "{\"token\":\"\xff\"}",
	"lone surrogate":      `{"token":"\ud83d"}`,
	"key with the secret": `{"` + tokenText + `":1}`,
	"nested":              strings.Repeat(`{"token":`, 600) + `1` + strings.Repeat(`}`, 600),
}

func TestDecode(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "{}": "", " {\n} ": "", good: tokenText,
		`{"\u0074oken": "\u006cgt_` + tokenText[4:] + `"}`: tokenText,
	} {
		if got, err := decode([]byte(in)); err != nil || got != want {
			t.Errorf("decode(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	for name, in := range hostileArguments {
		t.Run(name, func(t *testing.T) {
			got, err := decode([]byte(in))
			if !errors.Is(err, errArguments) || got != "" {
				t.Errorf("decode = %q, %v", got, err)
			}
		})
	}
}

// FuzzDecode holds that what is taken is one of the two forms, and that its
// token is one for the broker too.
func FuzzDecode(f *testing.F) {
	for _, in := range hostileArguments {
		if len(in) < 200 { // long ones keep the fuzzer from getting anywhere
			f.Add([]byte(in))
		}
	}
	for _, in := range []string{"", "{}", good, `{"token": "lgt_` + strings.Repeat("A", 43) + `"}`} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := decode(in)
		switch {
		case err != nil && (!errors.Is(err, errArguments) || got != ""):
			t.Fatalf("decode = %q, %v", got, err)
		case err == nil && got != "":
			if _, err := token.Parse(got); err != nil {
				t.Fatalf("the broker refuses %q", got)
			}
		case err == nil && strings.Trim(string(in), "{} \t\r\n") != "":
			t.Fatalf("%q counts as no arguments", in)
		}
	})
}

// TestWellFormed: what the broker mints is well formed here.
func TestWellFormed(t *testing.T) {
	for range 100 {
		tok, err := token.Mint(rand.Reader)
		if err != nil || !wellFormed(tok.Text()) {
			t.Fatalf("a minted token isn't well formed: %v", err)
		}
	}
}
