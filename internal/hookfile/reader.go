package hookfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/verdict"
)

// reader reads JSON whose form is known beforehand: each step says what has to
// come, so that nothing is deeper than the form is.
type reader struct {
	data []byte
	d    *jsontext.Decoder
	at   int64 // where what was last looked at begins
}

func (p *reader) text(what string) (string, error) {
	if err := p.want('"', what, "a string"); err != nil {
		return "", err
	}
	tok, err := p.d.ReadToken()
	if err != nil {
		return "", p.syntax(err)
	}
	return tok.String(), nil
}

func (p *reader) bool(what string) (bool, error) {
	p.at = p.next()
	if kind := p.d.PeekKind(); kind != 't' && kind != 'f' {
		return false, p.fault("%s must be true or false", what)
	}
	tok, err := p.d.ReadToken()
	if err != nil {
		return false, p.syntax(err)
	}
	return tok.Bool(), nil
}

// errNumber leaves it to the caller to say what was wanted.
var errNumber = errors.New("not a number")

func (p *reader) number() (float64, error) {
	p.at = p.next()
	if p.d.PeekKind() != '0' {
		return 0, errNumber
	}
	raw, err := p.d.ReadValue()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(string(raw), 64)
}

// one reads the only version that there is.
func (p *reader) one() error {
	if n, err := p.number(); err != nil || n != 1 {
		return p.fault("version must be 1")
	}
	return nil
}

// object calls each with every key. Its value is each's to read.
func (p *reader) object(what string, each func(key string) error) error {
	if err := p.want('{', what, "an object"); err != nil {
		return err
	}
	return p.items('}', func() error {
		p.at = p.next()
		tok, err := p.d.ReadToken()
		if err != nil {
			return p.syntax(err)
		}
		return each(tok.String())
	})
}

func (p *reader) array(what string, each func() error) error {
	if err := p.want('[', what, "an array"); err != nil {
		return err
	}
	return p.items(']', each)
}

// items reads what is between two brackets.
func (p *reader) items(end jsontext.Kind, each func() error) error {
	if err := p.skip(); err != nil { // the first bracket
		return err
	}
	for p.d.PeekKind() != end {
		if err := each(); err != nil {
			return err
		}
	}
	return p.skip()
}

// want looks at what comes next. What can't be read at all is said by reading it.
func (p *reader) want(kind jsontext.Kind, what, want string) error {
	p.at = p.next()
	switch p.d.PeekKind() {
	case kind:
		return nil
	case jsontext.KindInvalid:
		return p.skip()
	default:
		return p.fault("%s must be %s", what, want)
	}
}

func (p *reader) skip() error {
	if _, err := p.d.ReadToken(); err != nil {
		return p.syntax(err)
	}
	return nil
}

// end makes sure that nothing follows.
func (p *reader) end() error {
	p.at = p.next()
	if _, err := p.d.ReadToken(); !errors.Is(err, io.EOF) {
		return p.fault("there is text after the end of the object")
	}
	return nil
}

func (p *reader) unknown(key string) error {
	return p.fault("contains unknown field: %s", verdict.Object(key))
}

// fault is about what was last looked at.
func (p *reader) fault(format string, args ...any) error {
	return &Error{Line: p.lineAt(p.at), Problem: fmt.Sprintf(format, args...)}
}

// next is where the next value begins, or where the text ends.
func (p *reader) next() int64 {
	rest := p.data[p.d.InputOffset():]
	return int64(len(p.data) - len(bytes.TrimLeft(rest, " \t\r\n,:")))
}

func (p *reader) lineAt(offset int64) int {
	return 1 + bytes.Count(p.data[:min(offset, int64(len(p.data)))], []byte{'\n'})
}

// syntax says what isn't JSON.
func (p *reader) syntax(err error) error {
	var bad *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return &Error{Line: p.lineAt(int64(len(p.data))), Problem: "the text ends too early"}
	case errors.As(err, &bad) && errors.Is(bad.Err, jsontext.ErrDuplicateName):
		return &Error{Line: p.lineAt(bad.ByteOffset), Problem: "a key stands twice in one object"}
	case errors.As(err, &bad):
		return &Error{Line: p.lineAt(bad.ByteOffset), Problem: "no valid JSON: " + verdict.Clean(bad.Err.Error())}
	}
	return p.fault("no valid JSON: %v", err)
}
