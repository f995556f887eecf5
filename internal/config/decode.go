package config

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"leaseguard.internal/internal/catalog"
)

// decode understands a whole file.
func decode(path, mode string, data []byte) (*Config, error) {
	d := read(path, data)
	c := Default()
	c.Path = path
	p := &place{c: c, dir: filepath.Dir(path)}
	for _, t := range d.tables {
		d.fill(p, t)
	}
	if len(d.errs) == 0 {
		// What needs several keys at once is only asked of good ones.
		d.checkIdentity(c.Identity, mode)
		d.checkZVM(c.ZVM, mode)
		d.checkPolicyServer(c.PolicyServer)
		d.checkTools(c.Tools)
	}
	if len(d.errs) > 0 {
		return nil, d.err()
	}
	return c, nil
}

// fill sets the keys of one table.
func (d *document) fill(p *place, t *table) {
	switch t.name {
	case "zvm":
		p.c.ZVM = &ZVM{}
	case policyServer:
		p.c.PolicyServer = defaults().PolicyServer
	case toolTable:
		p.tool = &catalog.Entry{Line: t.line, VMKind: catalog.ByName}
		defer func() { p.c.Tools = append(p.c.Tools, *p.tool) }()
	}
	for _, e := range t.entries {
		k, ok := findKey(t.name + "." + e.key)
		if !ok {
			continue // read has refused it
		}
		if err := k.set(p, e.val); err != nil {
			d.fault(e.line, k.name, "%v", err)
		}
	}
}

// checkTools has the catalog judge all entries.
func (d *document) checkTools(tools []catalog.Entry) {
	_, err := catalog.New(tools)
	fault, ok := errors.AsType[*catalog.Error](err)
	if !ok {
		if err != nil {
			d.fault(1, toolTable, "%v", err)
		}
		return
	}
	line := fault.Line
	for _, t := range d.tables {
		if t.line == fault.Line {
			line = t.lineOf(fault.Key)
		}
	}
	d.fault(line, toolTable+"."+fault.Key, "%s", fault.Problem)
}

// err joins the faults in the order of their lines.
func (d *document) err() error {
	slices.SortStableFunc(d.errs, func(a, b error) int { return lineOf(a) - lineOf(b) })
	return &faults{list: d.errs[:min(len(d.errs), maxErrors)]}
}

func lineOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Line
	}
	return 0
}

// faults are all that is wrong with a file, one a line.
type faults struct{ list []error }

func (f *faults) Error() string {
	lines := make([]string, len(f.list))
	for i, err := range f.list {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

func (f *faults) Unwrap() []error { return f.list }

// Faults are what an error of Load or Parse holds: every place that is wrong.
func Faults(err error) []*Error {
	var all []*Error
	if many, ok := errors.AsType[*faults](err); ok {
		for _, e := range many.list {
			if fault, ok := errors.AsType[*Error](e); ok {
				all = append(all, fault)
			}
		}
	}
	return all
}
