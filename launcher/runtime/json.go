package runtime

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/verdict"
)

// The user's own files of Claude. What is carried over has to mean to us what it
// means to the client, so they are read strictly: one JSON object, keys once.

// Bounds of the files of a user.
const (
	maxSettings = 1 << 20
	maxState    = 64 << 20 // ~/.claude.json keeps a history of every project
)

// bom may stand before a text of the user's or an administrator's; the client takes it.
var bom = []byte("\xef\xbb\xbf")

// object keeps the raw values of a JSON object.
type object map[string]jsontext.Value

// largest is the key with the longest value.
func (o object) largest() (key string, size int) {
	for k, v := range o {
		if len(v) > size || len(v) == size && k < key {
			key, size = k, len(v)
		}
	}
	return key, size
}

// marshal writes what the client is given, always in the same order.
func marshal(what string, v any) ([]byte, error) {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", what, err)
	}
	return text, nil
}

// userFile is one of them, read.
type userFile struct {
	path string
	data []byte // empty when there is none
	top  object
}

// readUser reads a JSON object of the user's. No file is no error.
func readUser(path string, limit int64) (userFile, error) {
	u, err := readFile(path, limit)
	if err != nil || u.data == nil {
		return u, err
	}
	return u, u.parse()
}

// readFile reads a file of the user's. A link is followed, as the client does; a
// pipe or device is refused and blocks nothing. No file is no error, and no data.
func readFile(path string, limit int64) (userFile, error) {
	u := userFile{path: path}
	text, err := readText(path, limit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return u, nil
	case err != nil:
		return u, u.bad("", err.Error())
	}
	u.data = text
	return u, nil
}

func (u *userFile) parse() error {
	text := bytes.TrimPrefix(u.data, bom)
	err := json.Unmarshal(text, &u.top)
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	semantic, other := errors.AsType[*json.SemanticError](err)
	switch {
	case ok:
		line := 1 + bytes.Count(text[:min(int(syntax.ByteOffset), len(text))], []byte("\n"))
		return u.bad(pointer(syntax.JSONPointer), fmt.Sprintf("line %d is no JSON: %v", line, syntax.Err))
	case other:
		return u.bad(pointer(semantic.JSONPointer), "it is no JSON object")
	case err != nil: // nothing but white space, for one
		return u.bad("", "it is no JSON object: "+err.Error())
	case u.top == nil:
		return u.bad("", "it is no JSON object")
	}
	return nil
}

// bad ends a launch for what stands in the file at a place.
func (u *userFile) bad(at, cause string) error {
	if at != "" {
		cause = "at " + at + ": " + cause
	}
	return refuse(verdict.ConfigInvalid, "reading", u.path, cause, "correct "+shellWord(u.path)+"; the client would skip the file or a part of it")
}

// pointer writes the place of a value as people write it: hooks.Stop[0].matcher.
func pointer(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		if _, err := strconv.Atoi(token); err == nil {
			b.WriteString("[" + token + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(token)
	}
	return b.String()
}
