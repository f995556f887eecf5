package token

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	"leaseguard.internal/broker/lease"
)

func mint(t *testing.T) Token {
	t.Helper()
	tok, err := Mint(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestMintAndParse(t *testing.T) {
	tok := mint(t)
	got, err := Parse(tok.Text())
	if err != nil || got != tok || got.Hash() != tok.Hash() {
		t.Fatalf("Parse(Text) = %v, want the same token", err)
	}
	if other := mint(t); other.Text() == tok.Text() {
		t.Fatal("two tokens are equal")
	}
	if _, err := Mint(bytes.NewReader(make([]byte, 32))); err == nil {
		t.Error("a source of zeros gave a token")
	}
	if _, err := Mint(bytes.NewReader(nil)); err == nil {
		t.Error("an empty source gave a token")
	}
}

func TestParseRefuses(t *testing.T) {
	text := mint(t).Text()
	for name, s := range map[string]string{
		"empty": "", "prefix alone": prefix, "cut": text[:len(text)-1], "longer": text + "A", "newline": text + "\n",
		"no prefix": text[len(prefix):], "other case": strings.ToUpper(text[:4]) + text[4:],
		"not base64": text[:len(text)-1] + "!", "blank": text[:10] + " " + text[11:],
		"stray last bits": prefix + strings.Repeat("A", 42) + "B",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse(s); !errors.Is(err, ErrMalformed) {
				t.Errorf("Parse(%q) = %v, want ErrMalformed", s, err)
			}
		})
	}
}

// TestV2_TokenStaysOutOfText: nothing that prints a token shows it.
func TestV2_TokenStaysOutOfText(t *testing.T) {
	tok := mint(t)
	secret := strings.TrimPrefix(tok.Text(), prefix)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if s := fmt.Sprintf(verb, tok); strings.Contains(s, secret) {
			t.Errorf("%s prints the token: %s", verb, s)
		}
	}
}

func TestZeroTokenMatchesNothing(t *testing.T) {
	if (Token{}).Hash() != (lease.Hash{}) || Equal(lease.Hash{}, lease.Hash{}) || Equal((Token{}).Hash(), mint(t).Hash()) {
		t.Fatal("a zero token matched")
	}
	tok := mint(t)
	if !Equal(tok.Hash(), tok.Hash()) || Equal(tok.Hash(), mint(t).Hash()) {
		t.Fatal("Equal is wrong")
	}
}

func TestBindTellsApart(t *testing.T) {
	doc := func(name, text string) Document { return Document{Name: name, Bytes: []byte(text)} }
	seen := map[lease.Hash]string{}
	for name, b := range map[string]lease.Hash{
		"nothing":            Bind([32]byte{}, nil),
		"another catalog":    Bind([32]byte{1}, nil),
		"one":                Bind([32]byte{}, []Document{doc("a", "x")}),
		"empty":              Bind([32]byte{}, []Document{doc("a", "")}),
		"missing":            Bind([32]byte{}, []Document{{Name: "a", Missing: true}}),
		"name grew":          Bind([32]byte{}, []Document{doc("ax", "")}),
		"says missing":       Bind([32]byte{}, []Document{doc("a", "missing")}),
		"two":                Bind([32]byte{}, []Document{doc("a", "x"), doc("b", "y")}),
		"two in other order": Bind([32]byte{}, []Document{doc("b", "y"), doc("a", "x")}),
		"joined":             Bind([32]byte{}, []Document{doc("a", "xb"), doc("", "y")}),
	} {
		if before, dup := seen[b]; dup {
			t.Errorf("%q and %q have one digest", name, before)
		}
		seen[b] = name
	}
}

func FuzzParse(f *testing.F) {
	f.Add("lgt_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	f.Add("lgt_")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		if tok, err := Parse(s); err == nil && tok.Text() != s {
			t.Errorf("two texts for one token: %q and %q", s, tok.Text())
		}
	})
}
