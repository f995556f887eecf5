package config

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2/unstable"

	"leaseguard.internal/internal/verdict"
)

// maxErrors is how many faults are looked for in one file.
const maxErrors = 20

// Error is one thing that is wrong with a file.
type Error struct {
	File    string
	Line    int
	Key     string // empty when no key is meant
	Problem string // what is wrong, and what to do
}

// Error says where and what, in the form that editors jump to.
func (e *Error) Error() string {
	where := fmt.Sprintf("%s:%d: ", verdict.Clean(e.File), e.Line)
	if e.Key != "" {
		where += e.Key + ": "
	}
	return where + e.Problem
}

// document is a file, taken apart but not yet understood.
type document struct {
	file   string
	tables []*table
	errs   []error
}

// table is one [name] or [[name]] with the keys below it.
type table struct {
	name    string
	line    int
	entries []entry
}

type entry struct {
	key  string
	line int
	val  value
}

// lineOf is the line of a key, or of the table when the key isn't there.
func (t *table) lineOf(key string) int {
	for _, e := range t.entries {
		if e.key == key {
			return e.line
		}
	}
	return t.line
}

func (d *document) fault(line int, key, format string, args ...any) {
	d.errs = append(d.errs, &Error{File: d.file, Line: line, Key: key, Problem: fmt.Sprintf(format, args...)})
}

// reader reads a document with the library's parser. The library's decoder is
// of no use here: it folds the case of keys.
type reader struct {
	doc   *document
	p     unstable.Parser
	data  []byte
	lines lineCounter
}

// read takes data apart. What is wrong with it is in the document's errs.
func read(file string, data []byte) *document {
	r := &reader{doc: &document{file: file}, data: data, lines: lineCounter{data: data}}
	if at := invalidUTF8(data); at < len(data) {
		r.doc.fault(lineAt(data, at), "", "the line is not valid UTF-8; save the file as UTF-8")
		return r.doc
	}
	r.p.Reset(data)
	for len(r.doc.errs) < maxErrors && r.p.NextExpression() {
		r.expression(r.p.Expression())
	}
	if perr, ok := errors.AsType[*unstable.ParserError](r.p.Error()); ok {
		at := cap(data) - cap(perr.Highlight)
		r.doc.fault(lineAt(data, at), "", "%s; correct the TOML", verdict.Clean(perr.Message))
	} else if err := r.p.Error(); err != nil {
		r.doc.fault(lineAt(data, len(data)), "", "%s; correct the TOML", verdict.Clean(err.Error()))
	}
	return r.doc
}

func (r *reader) expression(n *unstable.Node) {
	name, parts, line := r.key(n)
	switch n.Kind {
	case unstable.Table, unstable.ArrayTable:
		r.header(name, parts, line, n.Kind == unstable.ArrayTable)
	case unstable.KeyValue:
		r.keyValue(name, parts, line, n.Value())
	default: // the parser has no other expressions; one that it gets is no key of ours
		r.doc.fault(line, "", "neither a table nor a key; remove it")
	}
}

// key returns a dotted key, how many parts it has, and its line.
func (r *reader) key(n *unstable.Node) (name string, parts, line int) {
	for it := n.Key(); it.Next(); parts++ {
		part := it.Node()
		if parts > 0 {
			name += "."
		} else {
			line = r.lines.at(int(part.Raw.Offset))
		}
		name += string(part.Data)
	}
	return name, parts, line
}

func (r *reader) header(name string, parts, line int, array bool) {
	d := r.doc
	t := &table{name: name, line: line}
	switch known := knownTable(name); {
	case parts != 1 || !known:
		d.fault(line, "", "unknown table [%s]; the tables are %s", verdict.Object(name), tableNames())
		t.name = "" // its keys can't be judged
	case array && name != toolTable:
		d.fault(line, name, "[[%s]] is a list of tables; write [%s]", name, name)
	case !array && name == toolTable:
		d.fault(line, name, "[%s] is a single table; write [[%s]], once for each tool", name, name)
	case !array:
		for _, other := range d.tables {
			if other.name == name {
				d.fault(line, name, "table [%s] is at line %d already; put its keys there", name, other.line)
				break
			}
		}
	}
	d.tables = append(d.tables, t)
}

func (r *reader) keyValue(name string, parts, line int, v *unstable.Node) {
	d := r.doc
	if len(d.tables) == 0 {
		d.fault(line, "", "key %s stands above all tables; put it below its table's header, such as [lease]", verdict.Object(name))
		return
	}
	t := d.tables[len(d.tables)-1]
	if t.name == "" {
		return
	}
	if parts != 1 {
		d.fault(line, "", "key %s has dots; write one key below the header of its table", verdict.Object(name))
		return
	}
	full := t.name + "." + name
	if _, known := findKey(full); !known {
		d.fault(line, "", "unknown key %s in [%s], where keys are %s", verdict.Object(name), t.name, keyNames(t.name))
		return
	}
	if first := t.lineOf(name); first != t.line {
		d.fault(line, full, "the key is at line %d already; remove one", first)
		return
	}
	t.entries = append(t.entries, entry{key: name, line: line, val: newValue(v)})
}

// invalidUTF8 is where data stops being UTF-8; its length if it never does.
func invalidUTF8(data []byte) int {
	for at := 0; at < len(data); {
		r, n := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && n == 1 {
			return at
		}
		at += n
	}
	return len(data)
}

// lineCounter counts lines for offsets that never fall, in one pass.
type lineCounter struct {
	data         []byte
	offset, line int
}

func (c *lineCounter) at(offset int) int {
	if offset > c.offset {
		c.line += bytes.Count(c.data[c.offset:offset], []byte("\n"))
		c.offset = offset
	}
	return c.line + 1
}

func lineAt(data []byte, offset int) int {
	c := lineCounter{data: data}
	return c.at(min(max(offset, 0), len(data)))
}
