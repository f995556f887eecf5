package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"leaseguard.internal/broker/store"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/hookfile"
	"leaseguard.internal/internal/wire"
)

// Definitions knows which definitions of policy hooks there are, which of them an
// operator has trusted, and so which a call meets. Three things are put together:
// the user's file, which the broker reads itself; a project's file, whose bytes
// came with the session's registration and stay as they were then; and what is
// trusted. Neither file can take the other away, and a trusted definition of a
// project needs no file any more.
//
// They are put together once per turn of the host. Only the host's own events
// begin one, so that nobody below it can have a change of a file taken in. What an
// operator revokes is gone at once, in every turn.
type Definitions struct {
	user  userFile
	clock clock.Clock
	store Trusts

	commit sync.Mutex // changes of trust, which go to disk
	trust  atomic.Pointer[trusted]

	mu       sync.RWMutex
	sessions map[launch]*member
}

// launch names one generation of a session.
type launch struct {
	id         string
	generation uint64
}

// member is a session with its project. Most projects have no file, and ten
// thousand sessions have to fit.
type member struct {
	dir  string
	file *projectFile // nil: its launcher has said that there is none

	mu    sync.Mutex
	turns []*snapshot // the newest last
}

// projectFile is what a launcher has told of one.
type projectFile struct {
	project     wire.ProjectHooks
	digest      string // of the file's bytes
	definitions []hookfile.Definition
	fault       error // why the file says nothing
}

func (m *member) identity() string { return hookfile.ProjectIdentity(m.dir) }

func (m *member) told() projectFile {
	if m.file == nil {
		return projectFile{project: wire.ProjectHooks{State: wire.ProjectAbsent}}
	}
	return *m.file
}

// snapshot is what holds during one turn.
type snapshot struct {
	turn    string
	taken   clock.Instant
	entries []entry
	fault   error
}

// entry is a definition in a snapshot.
type entry struct {
	hookfile.Definition
	key, identity string
	inFile        bool         // of this turn
	trust         *store.Trust // nil: it wasn't trusted then
}

const (
	keptTurns = 16               // of a session; a host has one at a time
	turnTime  = 60 * time.Second // where the host doesn't name its turns
)

// Adopt takes in what a session's launcher has told of its project. It comes
// before the first call of the session, and again after a restart.
func (d *Definitions) Adopt(id string, generation uint64, dir string, project wire.ProjectHooks, text []byte) {
	m := newMember(dir, project, text)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sessions[launch{id, generation}] = m
}

func newMember(dir string, project wire.ProjectHooks, text []byte) *member {
	m := &member{dir: dir}
	if project.State == wire.ProjectAbsent && len(text) == 0 {
		return m
	}
	m.file = &projectFile{project: project}
	m.file.definitions, m.file.digest, m.file.fault = readProject(dir, project, text)
	return m
}

// readProject understands what a launcher has told.
func readProject(dir string, project wire.ProjectHooks, text []byte) ([]hookfile.Definition, string, error) {
	path := projectPath(dir)
	switch {
	case project.State == wire.ProjectUnreadable:
		return nil, "", fmt.Errorf("%s: %s", path, project.Why)
	case project.State != wire.ProjectRead:
		return nil, "", fmt.Errorf("%s: the session's launcher has not said what is there", path)
	}
	sum := sha256.Sum256(text)
	f, err := hookfile.Parse(text, hookfile.Project)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return f.Definitions, hex.EncodeToString(sum[:]), err
}

func projectPath(dir string) string { return strings.TrimSuffix(dir, "/") + "/" + hookfile.ProjectFile }

// Forget lets go of a session that has ended.
func (d *Definitions) Forget(id string, generation uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sessions, launch{id, generation})
}

// Renew has the user's file read again, whatever it looks like, and begins a new
// turn in every session.
func (d *Definitions) Renew() {
	d.user.forget()
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, m := range d.sessions {
		m.mu.Lock()
		m.turns = nil
		m.mu.Unlock()
	}
}

// Meet is Hooks'.
func (d *Definitions) Meet(c Call) (met []Met, fault error) {
	d.mu.RLock()
	m := d.sessions[launch{c.Session, c.Generation}]
	d.mu.RUnlock()
	if m == nil {
		return nil, fmt.Errorf("session %s: which policy hooks it has is not known", c.Session)
	}
	s := d.at(m, c.Event.Turn, c.Own)
	now := d.trust.Load()
	for i := range s.entries {
		if e := &s.entries[i]; e.Match(c.Event.Tool) {
			if one, holds := e.met(now); holds {
				met = append(met, one)
			}
		}
	}
	return met, s.fault
}

// at returns the snapshot of a turn.
func (d *Definitions) at(m *member, turn string, own bool) *snapshot {
	now := d.clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !own {
		if n := len(m.turns); n > 0 {
			return m.turns[n-1]
		}
		turn = "" // its word for it counts nothing
	}
	i := slices.IndexFunc(m.turns, func(s *snapshot) bool { return s.turn == turn })
	if i >= 0 {
		if turn != "" || !own || now.Sub(m.turns[i].taken) < turnTime {
			return m.turns[i]
		}
		m.turns = slices.Delete(m.turns, i, i+1)
	}
	if len(m.turns) == keptTurns {
		m.turns = slices.Delete(m.turns, 0, 1)
	}
	s := d.take(m, turn, now)
	m.turns = append(m.turns, s)
	return s
}

// take puts together what holds now: the user's definitions, the project's, and
// those that only trust keeps.
func (d *Definitions) take(m *member, turn string, now clock.Instant) *snapshot {
	file, identity := m.told(), m.identity()
	s := &snapshot{turn: turn, taken: now, fault: file.fault}
	t := d.trust.Load()
	user, fault := d.user.read()
	if fault != nil {
		s.fault = fault
	}
	s.entries = entries(user, hookfile.UserIdentity, t)
	project := entries(file.definitions, identity, t)
	for _, key := range t.of(identity) {
		if !slices.ContainsFunc(project, func(e entry) bool { return e.key == key }) {
			project = append(project, entry{Definition: t.by[key].Definition, key: key, identity: identity, trust: t.by[key]})
		}
	}
	s.entries = slices.DeleteFunc(append(s.entries, project...), func(e entry) bool { return !e.inForce() })
	return s
}

// entries are a file's definitions with the trust in them.
func entries(file []hookfile.Definition, identity string, t *trusted) []entry {
	list := make([]entry, 0, len(file))
	for _, def := range file {
		key := def.Key(identity)
		list = append(list, entry{Definition: def, key: key, identity: identity, inFile: true, trust: t.by[key]})
	}
	return list
}

// inForce says whether the definition is switched on. The user's file says it for
// its own; what is trusted of a project stays as it was trusted.
func (e entry) inForce() bool {
	return e.Enabled || e.Source == hookfile.Project && e.trust != nil
}

// met is what a matching call meets in the definition, if it still holds: trust
// that was taken back since the turn began is gone.
func (e *entry) met(now *trusted) (Met, bool) {
	m := Met{
		Source: string(e.Source), Matcher: e.Matcher, Hash: e.key, Allows: e.Allows(),
		Run: wire.Hook{ID: e.ID, Command: e.Command, Args: e.Args, TimeoutMS: e.TimeoutMS},
	}
	switch {
	case e.trust != nil && now.by[e.key] == e.trust:
		m.Trusted, m.Hash, m.Run.Files = true, e.trust.Hash(), e.trust.Files
	case e.trust != nil && now.replaced[e.key]: // what took its place holds from the next turn on
		m.Missed, m.Why = true, "another has been trusted in its place since this turn began"
	case !e.inFile || !e.Enabled || now.replaced[e.key]:
		return Met{}, false
	default:
		m.Missed, m.Why = e.trust != nil && now.by[e.key] != nil, e.why(now)
	}
	return m, true
}

// why says of a definition what is wrong with its trust.
func (e *entry) why(now *trusted) string {
	switch {
	case now.by[e.key] != nil && e.trust == nil:
		return "it has been trusted since this turn began"
	case now.by[e.key] != nil:
		return "it has been trusted anew since this turn began"
	case e.trust != nil:
		return "trust in it was revoked"
	case now.named(e.identity, e.ID) != nil:
		return "it is not as it was trusted"
	}
	return "nobody has trusted it yet"
}
