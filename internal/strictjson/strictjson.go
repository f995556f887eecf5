// Package strictjson reads JSON that decides something: hook payloads, control
// frames, our own files.
//
// The host that sent a payload parses it too, with another parser. Wherever two
// parsers can read one text differently, the tool that is judged need not be
// the tool that runs. So nothing is tolerated here that any parser in use is
// known to read in its own way:
//
//   - exactly one object, and nothing after it but white space; no byte order mark
//   - valid UTF-8, also in escapes (no lone surrogates)
//   - every key once, at every level
//   - no key that equals a known key only after case folding
//   - at most MaxDepth levels and MaxTokens keys, values and brackets
//
// What it doesn't do: bound the size of a text. Callers bound before they read.
package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/verdict"
)

// MaxDepth is how many levels of objects and arrays a text may have, the
// outermost object included.
const MaxDepth = 512

// MaxTokens is how many keys, values and brackets a text may have. Telling equal
// keys needs memory for each, many times its bytes. Only DecodeLong takes more.
const MaxTokens = 200_000

// ErrMalformed is what every error of this package wraps. Who gets it knows
// nothing of the text and must refuse.
var ErrMalformed = errors.New("malformed JSON")

const (
	space = " \t\r\n"
	bom   = "\xef\xbb\xbf"
)

// Check reports whether data is one strict JSON object.
func Check(data []byte) error {
	return walk(data, MaxTokens, func(string, []byte) error { return nil })
}

// Fields checks data and returns the raw values of its top-level keys. A key
// that is not in known, but equals one of known after case folding, is an
// error: a folding parser would take it for that one. The values are parts of
// data, not copies.
func Fields(data []byte, known ...string) (map[string][]byte, error) {
	fields := make(map[string][]byte, min(len(data)/32, 16)) // keys and values have about as many bytes
	err := walk(data, MaxTokens, func(name string, value []byte) error {
		if err := checkFold(name, known); err != nil {
			return err
		}
		fields[name] = value
		return nil
	})
	if err != nil {
		return nil, err
	}
	return fields, nil
}

// Decode checks data and stores it in v, a pointer to a struct. A key that v
// doesn't have byte for byte and a value of another type are errors; a null is
// the zero value. What v holds after an error is undefined.
func Decode(data []byte, v any) error { return DecodeLong(data, v, MaxTokens) }

// DecodeLong is Decode of a text that may have so many keys, values and brackets,
// from somebody who is trusted with the memory.
func DecodeLong(data []byte, v any, tokens int) error {
	if err := walk(data, tokens, func(string, []byte) error { return nil }); err != nil {
		return err
	}
	err := json.Unmarshal(data, v, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	serr, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return syntax(err)
	}
	at := verdict.Object(string(serr.JSONPointer))
	if errors.Is(serr.Err, json.ErrUnknownName) {
		return fmt.Errorf("%w: unknown key at %s", ErrMalformed, at)
	}
	return fmt.Errorf("%w: value at %s: want a %v", ErrMalformed, at, serr.GoType)
}

// walk reads data once, and calls each with every top-level key and its value.
func walk(data []byte, tokens int, each func(name string, value []byte) error) error {
	if bytes.HasPrefix(data, []byte(bom)) {
		return fmt.Errorf("%w: byte order mark at its start", ErrMalformed)
	}
	d, done := decoder(data)
	defer done()
	tok, err := d.ReadToken()
	if err != nil {
		return syntax(err)
	}
	if tok.Kind() != '{' {
		return fmt.Errorf("%w: not an object", ErrMalformed)
	}
	left := tokens
	for {
		tok, err := d.ReadToken()
		if err != nil {
			return syntax(err)
		}
		if tok.Kind() == '}' {
			return checkEnd(d)
		}
		name, start := tok.String(), d.InputOffset()
		if err := skipValue(d, &left); err != nil {
			return err
		}
		value := bytes.TrimLeft(data[start:d.InputOffset()], space+":")
		if err := each(name, value); err != nil {
			return err
		}
	}
}

// decoders are used again: a new one costs more than a short text to read.
var decoders = sync.Pool{New: func() any { return jsontext.NewDecoder(bytes.NewBuffer(nil)) }}

// keepDecoder is the longest text after which a decoder is kept: one that has
// seen a million keys holds their memory.
const keepDecoder = 16 << 10

// decoder returns a decoder of data, to be given back by done.
func decoder(data []byte) (d *jsontext.Decoder, done func()) {
	if len(data) > keepDecoder {
		return jsontext.NewDecoder(bytes.NewBuffer(data)), func() {}
	}
	d = decoders.Get().(*jsontext.Decoder)
	d.Reset(bytes.NewBuffer(data))
	return d, func() {
		d.Reset(bytes.NewBuffer(nil)) // holds on to nobody's text
		decoders.Put(d)
	}
}

// skipValue reads one value below the outermost object or array. left is how
// many tokens the text may still have.
func skipValue(d *jsontext.Decoder, left *int) error {
	for {
		if _, err := d.ReadToken(); err != nil {
			return syntax(err)
		}
		*left--
		switch depth := d.StackDepth(); {
		case *left < 0:
			return fmt.Errorf("%w: too many keys and values", ErrMalformed)
		case depth > MaxDepth:
			return fmt.Errorf("%w: more than %d levels deep", ErrMalformed, MaxDepth)
		case depth == 1:
			return nil
		}
	}
}

// checkEnd makes sure that nothing follows the value that was read.
func checkEnd(d *jsontext.Decoder) error {
	end := d.InputOffset()
	if _, err := d.ReadToken(); errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("%w: text after the end of the object at byte %d", ErrMalformed, end)
}

func checkFold(name string, known []string) error {
	if slices.Contains(known, name) {
		return nil
	}
	for _, k := range known {
		if strings.EqualFold(name, k) {
			return fmt.Errorf("%w: key %s equals %q only after case folding", ErrMalformed, verdict.Object(name), k)
		}
	}
	return nil
}

// syntax turns an error of the tokenizer into ours.
func syntax(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: empty", ErrMalformed)
	}
	serr, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case !ok:
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	case errors.Is(serr.Err, jsontext.ErrDuplicateName):
		return fmt.Errorf("%w: key %s twice in one object", ErrMalformed, verdict.Object(serr.JSONPointer.LastToken()))
	case errors.Is(serr.Err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it ends too early, at byte %d", ErrMalformed, serr.ByteOffset)
	}
	return fmt.Errorf("%w: %w at byte %d", ErrMalformed, serr.Err, serr.ByteOffset)
}
