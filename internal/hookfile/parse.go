package hookfile

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/verdict"
)

// Error is what is wrong with a file, and where.
type Error struct {
	Line    int // 0: no one place
	Problem string
}

// Error returns it as text behind a file's name.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Problem
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Problem)
}

// Parse reads a whole file. Its error is an *Error.
func Parse(data []byte, source Source) (File, error) {
	if len(data) > MaxFile {
		return File{}, &Error{Problem: "exceeds 1 MiB"}
	}
	p := &parser{reader: reader{data: data, d: jsontext.NewDecoder(bytes.NewReader(data))}, source: source, ids: map[string]int{}}
	if err := p.file(); err != nil {
		return File{}, err
	}
	return File{p.found}, nil
}

type parser struct {
	reader
	source Source
	ids    map[string]int // the line of each
	found  []Definition
}

func (p *parser) file() error {
	version, hooks := false, false
	err := p.object("the file", func(key string) error {
		switch key {
		case "version":
			version = true
			return p.one()
		case "hooks":
			hooks = true
			return p.object("hooks", p.event)
		}
		return p.unknown(key)
	})
	switch {
	case err != nil:
		return err
	case !version:
		return p.fault("version must be 1")
	case !hooks:
		return p.fault("hooks must be an object")
	}
	return p.end()
}

func (p *parser) event(key string) error {
	if key != event {
		return p.unknown(key)
	}
	if p.d.PeekKind() == 'n' {
		return p.skip()
	}
	return p.array("hooks.PreToolUse", p.group)
}

// group reads one matcher with its handlers, which may stand in any order.
func (p *parser) group() error {
	matcher, handlers, first, at := "*", false, len(p.found), p.next()
	err := p.object("a group", func(key string) error {
		switch key {
		case "matcher":
			text, err := p.text("matcher")
			if err == nil {
				matcher = text
				if fault := matcherFault(text); fault != "" {
					err = p.fault("%s", fault)
				}
			}
			return err
		case "hooks":
			handlers = true
			return p.array("hooks", p.handler)
		}
		return p.unknown(key)
	})
	if err == nil && !handlers {
		p.at = at
		err = p.fault("hooks of a group must be an array")
	}
	for i := range p.found[first:] {
		p.found[first+i].Matcher = matcher
	}
	return err
}

func (p *parser) handler() error {
	at := p.next()
	d := Definition{Source: p.source, Args: []string{}, TimeoutMS: defaultTimeout, Enabled: true, OnError: Deny, Line: p.lineAt(at)}
	var has struct{ id, kind, command bool }
	err := p.object("a handler", func(key string) (err error) {
		switch key {
		case "id":
			has.id = true
			d.ID, err = p.bounded(key, maxID)
		case "type":
			has.kind = true
			var kind string
			if kind, err = p.text(key); err == nil && kind != "command" {
				err = p.fault(`type must be "command"`)
			}
		case "command":
			has.command = true
			if d.Command, err = p.bounded(key, maxText); err == nil && !strings.HasPrefix(d.Command, "/") {
				err = p.fault("command must be an absolute path")
			}
		case "args":
			err = p.array(key, func() error { return p.arg(&d) })
		case "timeoutMs":
			d.TimeoutMS, err = p.timeout()
		case "enabled":
			d.Enabled, err = p.bool(key)
		case "onError":
			var word string
			if word, err = p.text(key); err == nil && word != string(Deny) && word != string(Allow) {
				err = p.fault(`onError must be "deny" or "allow"`)
			}
			d.OnError = OnError(word)
		default:
			err = p.unknown(key)
		}
		return err
	})
	if err != nil {
		return err
	}
	p.at = at
	switch {
	case len(p.found) == MaxHandlers:
		return p.fault("there are more than %d handlers", MaxHandlers)
	case !has.id || !has.kind || !has.command:
		return p.fault("a handler needs id, type and command")
	}
	if line, twice := p.ids[d.ID]; twice {
		return p.fault("Duplicate id %s, first in line %d", verdict.Object(d.ID), line)
	}
	p.ids[d.ID] = d.Line
	p.found = append(p.found, d)
	return nil
}

func (p *parser) arg(d *Definition) error {
	text, err := p.text("each of args")
	switch {
	case err != nil:
		return err
	case len(d.Args) == maxArgs:
		return p.fault("args has more than %d", maxArgs)
	case units(text) > maxText:
		return p.fault("one of args is longer than %d characters", maxText)
	case strings.ContainsRune(text, 0):
		return p.fault("one of args has a NUL character")
	}
	d.Args = append(d.Args, text)
	return nil
}

func (p *parser) timeout() (int64, error) {
	n, err := p.number()
	if err != nil || n != math.Trunc(n) || n < minTimeout || n > maxTimeout {
		return 0, p.fault("timeoutMs must be a whole number from %d to %d", minTimeout, maxTimeout)
	}
	return int64(n), nil
}

// bounded reads a text that must say something.
func (p *parser) bounded(what string, most int) (string, error) {
	text, err := p.text(what)
	switch {
	case err != nil:
		return "", err
	case blank(text):
		return "", p.fault("%s is empty", what)
	case units(text) > most:
		return "", p.fault("%s is longer than %d characters", what, most)
	case strings.ContainsRune(text, 0):
		return "", p.fault("%s has a NUL character", what)
	}
	return text, nil
}
