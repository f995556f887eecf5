package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/verdict"
)

// maxPath is the most steps of a path.
const maxPath = 32

// Step is one step of a path: a key, or an index when Key is empty.
type Step struct {
	Key   string
	Index int
}

// CheckPath reports whether path is one that Lookup understands.
func CheckPath(path string) error {
	_, err := Steps(path)
	return err
}

// Lookup finds the string, or the list of strings, at path in object. A path is
// keys with dots between them, each with any number of indexes: a.b[0].
//
// found is false when a key or an index on the way is absent, and for an empty
// string or list. What is there but can't be read for certain is an error: a
// value of another type on the way or at the end, a key that fits only after
// case folding, a list with an empty string among others.
func Lookup(object []byte, path string) (values []string, found bool, err error) {
	steps, err := Steps(path)
	if err != nil {
		return nil, false, err
	}
	value := object
	for _, s := range steps {
		value, found, err = s.take(value)
		if err != nil {
			return nil, false, fmt.Errorf("looking up %s: %w", verdict.Object(path), err)
		}
		if !found {
			return nil, false, nil
		}
	}
	values, err = leaf(value)
	if err != nil {
		return nil, false, fmt.Errorf("looking up %s: %w", verdict.Object(path), err)
	}
	return values, len(values) > 0, nil
}

// take goes from one value to the one below it.
func (s Step) take(value []byte) (below []byte, found bool, err error) {
	if s.Key != "" {
		fields, err := Fields(value, s.Key)
		if err != nil {
			return nil, false, err
		}
		below, found = fields[s.Key]
		return below, found, nil
	}
	list, err := Elements(value)
	if err != nil || s.Index >= len(list) {
		return nil, false, err
	}
	return list[s.Index], true, nil
}

// leaf reads a string or a list of strings. Empty strings are left out, but not
// out of a list that has others: half a list of machines is no answer.
func leaf(value []byte) ([]string, error) {
	if jsontext.Value(value).Kind() != '[' {
		s, err := unquote(value)
		if err != nil || s == "" {
			return nil, err
		}
		return []string{s}, nil
	}
	list, err := Elements(value)
	if err != nil {
		return nil, err
	}
	var values []string
	for _, e := range list {
		s, err := unquote(e)
		if err != nil {
			return nil, err
		}
		if s != "" {
			values = append(values, s)
		}
	}
	if n := len(list) - len(values); n > 0 && len(values) > 0 {
		return nil, fmt.Errorf("%w: %d of %d strings in the list are empty", ErrMalformed, n, len(list))
	}
	return values, nil
}

func unquote(value []byte) (string, error) {
	if kind := jsontext.Value(value).Kind(); kind != '"' {
		return "", fmt.Errorf("%w: want a string or a list of strings, got %v", ErrMalformed, kind)
	}
	b, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return "", syntax(err)
	}
	return string(b), nil
}

// Elements returns the raw elements of an array, parts of value.
func Elements(value []byte) ([][]byte, error) {
	if kind := jsontext.Value(value).Kind(); kind != '[' {
		return nil, fmt.Errorf("%w: want a list, got %v", ErrMalformed, kind)
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(value))
	if _, err := d.ReadToken(); err != nil {
		return nil, syntax(err)
	}
	var list [][]byte
	left := MaxTokens
	for d.PeekKind() != ']' {
		start := d.InputOffset()
		if err := skipValue(d, &left); err != nil {
			return nil, err
		}
		list = append(list, bytes.TrimLeft(value[start:d.InputOffset()], space+","))
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, syntax(err)
	}
	return list, checkEnd(d)
}

// Steps returns the steps of a path that Lookup understands.
func Steps(path string) ([]Step, error) {
	var steps []Step
	for part := range strings.SplitSeq(path, ".") {
		key, indexes, _ := strings.Cut(part, "[")
		if key == "" || strings.Contains(key, "]") {
			return nil, pathError(path, errors.New("each part starts with a key"))
		}
		steps = append(steps, Step{Key: key})
		if len(key) == len(part) {
			continue
		}
		for i := range strings.SplitSeq(indexes, "[") {
			n, err := parseIndex(i)
			if err != nil {
				return nil, pathError(path, err)
			}
			steps = append(steps, Step{Index: n})
		}
	}
	if len(steps) > maxPath {
		return nil, pathError(path, fmt.Errorf("at most %d keys and indexes", maxPath))
	}
	return steps, nil
}

// parseIndex reads what stands after a [, the closing bracket included.
func parseIndex(s string) (int, error) {
	digits, ok := strings.CutSuffix(s, "]")
	n, err := strconv.ParseUint(digits, 10, 16)
	if !ok || err != nil || strconv.FormatUint(n, 10) != digits {
		return 0, errors.New("an index is a number in brackets")
	}
	return int(n), nil
}

func pathError(path string, cause error) error {
	return fmt.Errorf("%w: path %s: %w; a path looks like a.b[0]", ErrMalformed, verdict.Object(path), cause)
}
