package cli

import (
	"slices"
	"strings"

	"leaseguard.internal/internal/holes"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/safepath"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/launcher"
)

// runtimeReport is one runtime on this machine.
type runtimeReport struct {
	Runtime string      `json:"runtime"`
	Path    string      `json:"path"`
	Version string      `json:"version"` // empty: not known
	Launch  bool        `json:"launch"`  // nothing is known that would end its launch
	Proved  *bool       `json:"proved"`  // a proof is fresh that the gate is asked, as all is now; null: not known
	Effect  []string    `json:"effect"`
	Notes   []string    `json:"notes"` // what a session doesn't have
	Holes   []holes.Row `json:"holes"`
}

// runtimes looks at each runtime that guard launches by name.
func (d *doctor) runtimes() {
	var absent []string
	for _, name := range launcher.Runtimes() {
		c := d.check(name)
		if c.Absent {
			absent = append(absent, name)
			continue
		}
		d.runtime(c)
	}
	if len(absent) > 0 {
		d.ok("runtimes", "not on this machine: "+strings.Join(absent, ", "))
	}
}

func (d *doctor) check(name string) launcher.Checked {
	return launcher.Check(d.ctx, name, launcher.AgentLaunch{Launch: launcher.Launch{Paths: d.paths, Env: d.Env}})
}

func (d *doctor) runtime(c launcher.Checked) {
	r := runtimeReport{
		Runtime: c.Runtime, Path: c.Path, Version: c.Version, Launch: c.Err == nil,
		Effect: append([]string{}, c.Effect...), Notes: append([]string{}, c.Notes...), Holes: []holes.Row{},
	}
	if c.Err != nil {
		text, fix := remedyOf(c.Err, "guard launch "+c.Runtime)
		d.fail(c.Runtime, text, fix)
	}
	if c.Path != "" {
		d.client(c)
		d.proof(c, &r)
		for _, text := range append(c.Effect, c.Notes...) {
			d.ok(c.Runtime, verdict.Clean(text))
		}
		for _, f := range c.Faults {
			d.fail(c.Runtime, verdict.Clean(f.String()), verdict.Clean(f.Next))
		}
		r.Holes = append(r.Holes, holes.For(c.Runtime, c.Version)...)
		d.holes(c, r.Holes)
	}
	d.out.Runtimes = append(d.out.Runtimes, r)
}

// client says which program it is, of which version, and who may change it.
func (d *doctor) client(c launcher.Checked) {
	text := verdict.Object(c.Path)
	if c.Version != "" {
		text = "version " + c.Version + ", " + text
	}
	err := safepath.File(c.Path, uid())
	switch {
	case err != nil:
		why, fix := remedyOf(err, "install it where only root and you may write")
		d.warned(c.Runtime, text+": others may change it: "+why, fix)
	case c.Warning != "":
		d.warned(c.Runtime, text+": "+verdict.Clean(c.Warning), "guard launch "+c.Runtime+" proves it; for what was tested see: "+manualHosts())
	default:
		d.ok(c.Runtime, text)
	}
}

// proof says whether this very client, with everything as it is now, has shown
// that it asks the gate.
func (d *doctor) proof(c launcher.Checked, r *runtimeReport) {
	if c.Digest == "" || !d.known {
		return
	}
	proved := slices.Contains(d.proofs, c.Digest)
	r.Proved = &proved
	if proved {
		d.ok(c.Runtime, "it has proved within a day that it asks the gate, with everything as it is now")
		return
	}
	d.ok(c.Runtime, "it has not proved yet that it asks the gate, with everything as it is now: guard launch "+c.Runtime+" has it do so before it starts")
}

// holes lists the known ways around the gate that stand, each with what bounds it.
func (d *doctor) holes(c launcher.Checked, rows []holes.Row) {
	closed, measured := 0, ""
	for _, row := range rows {
		text := "hole " + row.ID + " (" + row.State + "): " + row.What
		switch row.State {
		case holes.Closed:
			closed++
		case holes.Compensated:
			d.ok(c.Runtime, text+"; compensated by: "+row.By)
		default:
			d.warned(c.Runtime, text, row.By)
		}
		measured = row.Version
	}
	switch {
	case len(rows) == 0:
		d.warned(c.Runtime, "no way around its gate is known, since none was looked for", "see what was tested: "+manualHosts())
	case holes.Compare(measured, c.Version) != 0:
		d.ok(c.Runtime, count(closed, "known way")+" around the gate closed, as measured on version "+measured)
	default:
		d.ok(c.Runtime, count(closed, "known way")+" around the gate closed")
	}
}

func manualHosts() string { return paths.Manual("hosts.md") }
