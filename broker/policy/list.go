package policy

import (
	"cmp"
	"fmt"
	"slices"

	"leaseguard.internal/broker/store"
	"leaseguard.internal/internal/hookfile"
	"leaseguard.internal/internal/wire"
)

// Look is what an operator's own program has found in a directory, which need not
// have a session. The zero value: it has looked nowhere.
type Look struct {
	Dir     string
	Project wire.ProjectHooks
	Text    []byte
}

// listing puts together what `guard hooks list` shows.
type listing struct {
	trust   *trusted
	sources []wire.HookSource
	defs    []wire.HookDefinition
	found   map[string]store.Trust // what each key would trust
}

// List shows every file, every definition once, and what is trusted.
func (d *Definitions) List(l Look) wire.Hooks {
	all := d.collect(l)
	h := wire.Hooks{Revocations: all.trust.revoked, User: all.sources[0], Projects: all.sources[1:], Definitions: all.defs}
	slices.SortFunc(h.Projects, func(a, b wire.HookSource) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.SHA256, b.SHA256), cmp.Compare(a.State, b.State))
	})
	for i := range h.Projects {
		slices.Sort(h.Projects[i].Sessions)
	}
	return h
}

// Find returns what the key names, to be trusted: its definition and the identity
// that it belongs to.
func (d *Definitions) Find(key string, l Look) (store.Trust, bool) {
	r, ok := d.collect(l).found[key]
	return r, ok
}

func (d *Definitions) collect(l Look) *listing {
	all := &listing{trust: d.trust.Load(), found: map[string]store.Trust{}}
	user, fault := d.user.read()
	source := wire.HookSource{Path: d.user.path, Identity: hookfile.UserIdentity, State: string(wire.ProjectRead)}
	if fault != nil {
		source.State, source.Fault = string(wire.ProjectUnreadable), fault.Error()
	} else if d.user.absent() {
		source.State = string(wire.ProjectAbsent)
	}
	all.add(source, user)
	if l.Dir != "" {
		m := newMember(l.Dir, l.Project, l.Text)
		all.addMember(m, "")
	}
	for id, m := range d.members() {
		all.addMember(m, id)
	}
	for _, r := range all.trust.by {
		all.define(r.Definition, r.Identity, false)
	}
	slices.SortStableFunc(all.defs, func(a, b wire.HookDefinition) int {
		return cmp.Or(-cmp.Compare(a.Source, b.Source), cmp.Compare(a.Identity, b.Identity), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Key, b.Key))
	})
	return all
}

func (d *Definitions) members() map[string]*member {
	d.mu.RLock()
	defer d.mu.RUnlock()
	all := make(map[string]*member, len(d.sessions))
	for l, m := range d.sessions {
		all[l.id] = m
	}
	return all
}

// addMember adds a project. Sessions that were launched with the same share one
// line.
func (a *listing) addMember(m *member, session string) {
	file := m.told()
	s := wire.HookSource{Path: projectPath(m.dir), Identity: m.identity(), Dir: m.dir, State: string(file.project.State), SHA256: file.digest}
	if file.fault != nil {
		s.Fault = file.fault.Error()
		s.State = cmp.Or(s.State, "unknown")
	}
	i := slices.IndexFunc(a.sources[1:], func(o wire.HookSource) bool {
		return o.Identity == s.Identity && o.State == s.State && o.SHA256 == s.SHA256 && o.Fault == s.Fault
	}) + 1
	if i == 0 {
		i = len(a.sources)
		a.add(s, file.definitions)
	}
	if session != "" {
		a.sources[i].Sessions = append(a.sources[i].Sessions, session)
	}
}

func (a *listing) add(s wire.HookSource, file []hookfile.Definition) {
	a.sources = append(a.sources, s)
	for _, def := range file {
		a.define(def, s.Identity, true)
	}
}

// define adds a definition, unless it is there.
func (a *listing) define(def hookfile.Definition, identity string, inFile bool) {
	key := def.Key(identity)
	if _, known := a.found[key]; known {
		return
	}
	a.found[key] = store.Trust{Identity: identity, Definition: def}
	w := wire.HookDefinition{
		Key: key, ID: def.ID, Source: string(def.Source), Identity: identity, Matcher: def.Matcher, Command: def.Command, Args: def.Args,
		TimeoutMS: def.TimeoutMS, OnError: string(def.OnError), Enabled: def.Enabled, InFile: inFile,
	}
	if r := a.trust.by[key]; r != nil {
		w.Trust = &wire.HookTrust{Hash: r.Hash(), Files: r.Files, At: r.At, By: r.By, Seen: r.Seen}
		w.Enabled = w.Enabled || def.Source == hookfile.Project // as it was trusted
	} else {
		w.Replaced = a.trust.replaced[key]
	}
	a.defs = append(a.defs, w)
}

// Warn says at a launch what of its policy hooks needs an operator.
func (d *Definitions) Warn(id string, generation uint64) (warnings []string) {
	d.mu.RLock()
	m := d.sessions[launch{id, generation}]
	d.mu.RUnlock()
	if m == nil {
		return nil
	}
	s := d.take(m, "", d.clock.Now())
	now, untrusted, kept := d.trust.Load(), 0, 0
	for i := range s.entries {
		e := &s.entries[i]
		if one, holds := e.met(now); holds && !one.Trusted {
			untrusted++
		}
		if !e.inFile {
			kept++
		}
	}
	if s.fault != nil {
		warnings = append(warnings, "nothing may change in this session: "+s.fault.Error())
	}
	if untrusted > 0 {
		warnings = append(warnings, fmt.Sprintf("policy hooks that nobody has trusted: %d; an operator looks at them by: guard hooks list, and trusts one by: guard hooks trust ID", untrusted))
	}
	if kept > 0 {
		warnings = append(warnings, fmt.Sprintf("policy hooks that are trusted here but no longer in %s: %d; they stay in force until an operator runs: guard hooks revoke ID", hookfile.ProjectFile, kept))
	}
	return warnings
}
