package zerto

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/verdict"
)

// setter takes one JSON value, which it must not keep: the bytes are reused.
type setter func(jsontext.Value) error

// fields binds an object's documented names, in camelCase, to setters. A name
// that is absent leaves its zero value, which grants nothing anywhere.
type fields map[string]setter

// parse hands the one JSON value that data is to set. The reader refuses
// duplicate keys at every level and text that isn't UTF-8.
func parse(data []byte, set setter) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data))
	v, err := dec.ReadValue()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	// The check for more comes after the use of v, whose bytes it may reuse.
	if err := set(v); err != nil {
		return fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: there is more after the JSON value", ErrAnswer)
	}
	return nil
}

// object reads an object; null is an object without fields.
func (f fields) object(v jsontext.Value) error {
	switch v.Kind() {
	case 'n':
		return nil
	case '{':
	default:
		return wrongType(v, "an object")
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(v))
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	taken := make(map[string]bool, len(f))
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		key, err := f.key(name.String())
		if err != nil {
			return err
		}
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if key == "" {
			continue
		}
		if taken[key] {
			return fmt.Errorf("key %q stands there in both spellings", key)
		}
		taken[key] = true
		if err := f[key](value); err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
	}
	return nil
}

// key returns which field a key of the answer is, "" for an unknown one. Names
// are ASCII, so the second spelling differs in the first byte alone.
func (f fields) key(name string) (string, error) {
	for known := range f {
		if !strings.EqualFold(name, known) {
			continue
		}
		if name == known || name == strings.ToUpper(known[:1])+known[1:] {
			return known, nil
		}
		return "", fmt.Errorf("key %s equals %q only after case folding", verdict.Object(name), known)
	}
	return "", nil
}

// array hands each element to set. Null is no array: a list that is missing
// isn't an empty list.
func array(set setter) setter {
	return func(v jsontext.Value) error {
		if v.Kind() != '[' {
			return wrongType(v, "an array")
		}
		dec := jsontext.NewDecoder(bytes.NewBuffer(v))
		if _, err := dec.ReadToken(); err != nil {
			return err
		}
		for i := 0; dec.PeekKind() != ']'; i++ {
			element, err := dec.ReadValue()
			if err != nil {
				return err
			}
			if err := set(element); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
		}
		return nil
	}
}

// text reads a string; null leaves it empty.
func text(p *string) setter {
	return func(v jsontext.Value) (err error) {
		switch v.Kind() {
		case 'n':
			return nil
		case '"':
			*p, err = unquote(v)
			return err
		default:
			return wrongType(v, "a string")
		}
	}
}

var digits = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]{1,20}$`) })

// number reads a whole number of at most 18 digits; null leaves zero.
func number(p *int64) setter {
	return func(v jsontext.Value) error {
		if v.Kind() == 'n' {
			return nil
		}
		n, err := strconv.ParseInt(string(v), 10, 64)
		if err != nil {
			return wrongType(v, "a whole number")
		}
		*p = n
		return nil
	}
}

// decimal reads an identifier that some releases send as a string and others as
// a number.
func decimal(p *string) setter {
	return func(v jsontext.Value) (err error) {
		s := string(v)
		if v.Kind() == '"' {
			if s, err = unquote(v); err != nil {
				return err
			}
		}
		if !digits().MatchString(s) {
			return wrongType(v, "a decimal identifier")
		}
		*p = s
		return nil
	}
}

// moment reads a point in time that names its zone.
func moment(p *time.Time) setter {
	return func(v jsontext.Value) error {
		var s string
		if err := text(&s)(v); err != nil {
			return err
		}
		t, err := parseTime(s, false)
		if err == nil {
			*p = t
		}
		return err
	}
}

// into makes a setter of a decoder: what it decodes goes to p, nothing on error.
func into[T any](p *T, decode func(jsontext.Value) (T, error)) setter {
	return func(v jsontext.Value) (err error) {
		*p, err = decode(v)
		return err
	}
}

func unquote(v jsontext.Value) (string, error) {
	b, err := jsontext.AppendUnquote(nil, []byte(v))
	return string(b), err
}

func wrongType(v jsontext.Value, want string) error {
	return fmt.Errorf("got %s, want %s", verdict.Object(verdict.Cut(string(v), 40)), want)
}
