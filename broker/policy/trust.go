package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"

	"leaseguard.internal/broker/store"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/hookfile"
	"leaseguard.internal/internal/safepath"
)

// Trusts keeps trust on disk.
type Trusts interface {
	Trusts() (all []store.Trust, revoked uint64, err error)
	PutTrust(context.Context, store.Trust) error
	RevokeTrust(ctx context.Context, key string) (was bool, revoked uint64, err error)
}

// trusted is all that is trusted at one moment. It never changes: a change puts
// another in its place.
type trusted struct {
	by       map[string]*store.Trust // by the definition's key
	replaced map[string]bool         // keys of what others took the place of
	revoked  uint64                  // how many revocations there have been
}

func newTrusted(all []store.Trust, revoked uint64) *trusted {
	t := &trusted{by: make(map[string]*store.Trust, len(all)), replaced: map[string]bool{}, revoked: revoked}
	for i := range all {
		t.by[all[i].Key()] = &all[i]
		for _, key := range all[i].Replaced {
			t.replaced[key] = true
		}
	}
	return t
}

// of are the keys of the trusted definitions of an identity, in the order of their
// trust.
func (t *trusted) of(identity string) (keys []string) {
	for key, r := range t.by {
		if r.Identity == identity {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		x, y := t.by[a], t.by[b]
		return cmp.Or(x.At.Compare(y.At), cmp.Compare(x.Definition.ID, y.Definition.ID), cmp.Compare(a, b))
	})
	return keys
}

// named is the trusted definition with that id of an identity, or nil.
func (t *trusted) named(identity, id string) *store.Trust {
	for _, r := range t.by {
		if r.Identity == identity && r.Definition.ID == id {
			return r
		}
	}
	return nil
}

// New returns the definitions of a broker of uid whose user's file is at path. No
// session is adopted yet.
func New(path string, uid uint32, c clock.Clock, s Trusts) (*Definitions, error) {
	d := &Definitions{user: userFile{path: path, uid: uid}, clock: c, store: s, sessions: map[launch]*member{}}
	return d, d.load()
}

// load takes over what the store has.
func (d *Definitions) load() error {
	all, revoked, err := d.store.Trusts()
	if err != nil {
		return err
	}
	next := newTrusted(all, revoked)
	if old := d.trust.Load(); old != nil {
		for key, r := range next.by { // what is as it was stays the same one
			if was := old.by[key]; was != nil && was.Hash() == r.Hash() && was.Seen == r.Seen && was.At.Equal(r.At) {
				next.by[key] = was
			}
		}
	}
	d.trust.Store(next)
	return nil
}

// Trust trusts a definition as r says, in place of what was trusted under the same
// name, and is in force from the next turn on. It is on disk before that.
func (d *Definitions) Trust(ctx context.Context, r store.Trust) (store.Trust, error) {
	d.commit.Lock()
	defer d.commit.Unlock()
	key := r.Key()
	seen := map[string]bool{key: true}
	r.Replaced = []string{}
	now := d.trust.Load()
	for _, was := range now.of(r.Identity) {
		old := now.by[was]
		if old.Definition.ID != r.Definition.ID {
			continue
		}
		for _, k := range append([]string{was}, old.Replaced...) {
			if !seen[k] && len(r.Replaced) < store.MaxReplaced {
				seen[k], r.Replaced = true, append(r.Replaced, k)
			}
		}
	}
	err := d.store.PutTrust(ctx, r)
	if loadErr := d.load(); err == nil {
		err = loadErr
	}
	if err == nil && d.trust.Load().by[key] == nil {
		err = errors.New("it is not in the store")
	}
	return r, err
}

// Revoke takes trust back, at once. What could not be written down is revoked in
// memory all the same.
func (d *Definitions) Revoke(ctx context.Context, key string) (was bool, err error) {
	d.commit.Lock()
	defer d.commit.Unlock()
	was, _, err = d.store.RevokeTrust(ctx, key)
	if loadErr := d.load(); err == nil && loadErr == nil {
		return was, nil
	}
	old := d.trust.Load()
	next := &trusted{by: maps.Clone(old.by), replaced: old.replaced, revoked: old.revoked}
	was = was || next.by[key] != nil
	delete(next.by, key)
	d.trust.Store(next)
	return was, err
}

// userFile is the user's hooks.json. It is read again when it looks otherwise.
type userFile struct {
	path string
	uid  uint32

	mu    sync.Mutex
	known bool
	look  look
	file  []hookfile.Definition
	fault error
}

// look is how a file looks from outside; the zero value is that of none.
type look struct {
	dev, ino   uint64
	size       int64
	mtim, ctim syscall.Timespec
}

// read returns the file's definitions. That it isn't there is no fault; that it
// can't be read or understood is one, and stays one until it looks otherwise.
func (u *userFile) read() ([]hookfile.Definition, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now, err := u.see()
	if err != nil {
		u.known = false
		return nil, fmt.Errorf("reading %q: %w", u.path, err)
	}
	if u.known && now == u.look {
		return u.file, u.fault
	}
	u.known, u.look = true, now
	u.file, u.fault = nil, nil
	if now == (look{}) {
		return nil, nil
	}
	text, err := safepath.ReadFile(u.path, u.uid, hookfile.MaxFile)
	if err != nil {
		u.known, u.fault = false, err
		return nil, u.fault
	}
	f, err := hookfile.Parse(text, hookfile.User)
	if err != nil {
		u.fault = fmt.Errorf("%s: %w", u.path, err)
	}
	u.file = f.Definitions
	return u.file, u.fault
}

func (u *userFile) see() (look, error) {
	info, err := os.Lstat(u.path)
	if errors.Is(err, fs.ErrNotExist) {
		return look{}, nil
	}
	if err != nil {
		return look{}, err
	}
	st := info.Sys().(*syscall.Stat_t) // as of every file on Linux
	return look{st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim}, nil
}

// absent says whether the file wasn't there when it was last looked at.
func (u *userFile) absent() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.known && u.look == (look{})
}

func (u *userFile) forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.known = false
}
