package runtime

import (
	"bytes"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/verdict"
)

// MergeHooks puts the gate into a settings file of Claude's, before every call,
// and keeps each byte of what else stands in it. An entry of guard's that says
// something else is replaced where it stands. A text that has the gate already
// comes back as it is; one that the client would skip is an error.
func (in Install) MergeHooks(path string, data []byte) ([]byte, error) {
	if len(data) == 0 {
		data = []byte("{}\n")
	}
	f := userFile{path: path, data: data}
	err := f.parse()
	if err == nil {
		err = f.check(settingsShape, jsontext.Value(bytes.TrimPrefix(data, bom)), "")
	}
	if err != nil {
		return nil, err
	}
	text := bytes.Clone(data)
	for _, event := range in.decides() {
		entry, err := marshal("the gate's entry", in.hooks()[event][0])
		if err != nil {
			return nil, err
		}
		if text, err = mergeEvent(text, event, entry); err != nil {
			return nil, f.bad("hooks."+event, err.Error())
		}
	}
	if len(text) > maxSettings {
		return nil, refuse(verdict.ConfigInvalid, "putting the gate into", path, "with it the file is longer than the client reads", "make "+shellWord(path)+" shorter")
	}
	return text, nil
}

// span is where a value stands in a text.
type span struct{ from, to int }

// values are the values in an object or a list.
type values struct {
	inside int      // right behind the bracket that opens it
	names  []string // of an object's values
	all    []span
}

// mergeEvent puts one entry under one event.
func mergeEvent(text []byte, event string, entry jsontext.Value) ([]byte, error) {
	at := span{len(text) - len(bytes.TrimPrefix(text, bom)), len(text)}
	missing := slices.Concat([]byte("["), entry, []byte("]"))
	for _, key := range []string{"hooks", event} {
		p, err := look(text, at)
		if err != nil {
			return nil, err
		}
		i := slices.Index(p.names, key)
		if i < 0 {
			if key == "hooks" {
				missing = slices.Concat([]byte(`{"`+event+`":`), missing, []byte("}"))
			}
			return p.insert(text, slices.Concat([]byte(`"`+key+`":`), missing)), nil
		}
		at = p.all[i]
	}
	list, err := look(text, at)
	if err != nil {
		return nil, err
	}
	found := false
	for _, v := range slices.Backward(list.all) {
		old := jsontext.Value(text[v.from:v.to])
		if !isGates(old) {
			continue
		}
		found = true
		if !equal(old, entry) {
			text = slices.Concat(text[:v.from], entry, text[v.to:])
		}
	}
	if found {
		return text, nil
	}
	return list.insert(text, entry), nil
}

// insert puts a value before all others.
func (p values) insert(text, value []byte) []byte {
	if len(p.all) > 0 {
		value = append(slices.Clone(value), ',')
	}
	return slices.Concat(text[:p.inside], value, text[p.inside:])
}

// look finds the values of the object or list that stands there.
func look(text []byte, at span) (values, error) {
	d := jsontext.NewDecoder(bytes.NewReader(text[at.from:at.to]))
	open, err := d.ReadToken()
	if err != nil {
		return values{}, err
	}
	object := open.Kind() == '{'
	p := values{inside: at.from + int(d.InputOffset())}
	for d.PeekKind() != '}' && d.PeekKind() != ']' {
		if object {
			name, err := d.ReadToken()
			if err != nil {
				return values{}, err
			}
			p.names = append(p.names, name.String())
		}
		v, err := d.ReadValue()
		if err != nil {
			return values{}, err
		}
		to := at.from + int(d.InputOffset())
		p.all = append(p.all, span{to - len(v), to})
	}
	return p, nil
}

// isGates reports whether an entry of a settings file holds guard's gate alone.
func isGates(entry jsontext.Value) bool {
	var m matcher
	if json.Unmarshal(entry, &m) != nil || len(m.Hooks) == 0 {
		return false
	}
	return !slices.ContainsFunc(m.Hooks, func(h hook) bool {
		return filepath.Base(h.Command) != "guard-gate" || len(h.Args) == 0 || h.Args[0] != "claude"
	})
}

// onlyGates reports whether all hooks of a settings file are guard's.
func onlyGates(hooks jsontext.Value) bool {
	var events map[string][]jsontext.Value
	if json.Unmarshal(hooks, &events) != nil {
		return false
	}
	for _, list := range events {
		if !slices.ContainsFunc(list, isGates) || slices.ContainsFunc(list, func(v jsontext.Value) bool { return !isGates(v) }) {
			return false
		}
	}
	return true
}

// equal compares what two texts say.
func equal(a, b jsontext.Value) bool {
	a, b = a.Clone(), b.Clone()
	return a.Canonicalize() == nil && b.Canonicalize() == nil && bytes.Equal(a, b)
}
