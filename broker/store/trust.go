package store

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	bolt "go.etcd.io/bbolt"

	"leaseguard.internal/internal/hookfile"
	"leaseguard.internal/internal/wire"
)

// Trust is an operator's word that a definition of policy hooks may run, and with
// which bytes. It is kept under the definition's key.
type Trust struct {
	Identity   string              `json:"identity"` // that it holds for: the user, or one project
	Definition hookfile.Definition `json:"definition"`
	Files      []wire.HookFile     `json:"files"` // the command's digest first
	// Seen is how many revocations there had been when the operator looked: none
	// that is later is undone by it.
	Seen     uint64    `json:"seen"`
	At       time.Time `json:"at"`
	By       uint32    `json:"by"`
	Replaced []string  `json:"replaced"` // keys of what it took the place of
}

// Key is what the trust is kept under.
func (t Trust) Key() string { return t.Definition.Key(t.Identity) }

// Hash names what is trusted, bytes included.
func (t Trust) Hash() string { return t.Definition.Hash(t.Identity, t.Files) }

// MaxReplaced is how many keys one trust may take the place of.
const MaxReplaced = 16

const (
	maxTrusts = 4096
	maxTrust  = 2 << 20 // bytes of an entry: a definition is as long as its file may be
)

var (
	// ErrRevokedSince says that something was revoked after the operator looked.
	ErrRevokedSince = errors.New("trust was revoked since it was looked at")
	// ErrTrustFull says that no more can be trusted.
	ErrTrustFull = fmt.Errorf("%d definitions are trusted, which is the limit", maxTrusts)
)

var digestText = regexp.MustCompile(`^[0-9a-f]{64}$`)

// check refuses what names too little to be trusted.
func (t Trust) check() error {
	d := t.Definition
	switch {
	case t.Identity == "" || (t.Identity == hookfile.UserIdentity) != (d.Source == hookfile.User) || d.Source != hookfile.User && d.Source != hookfile.Project:
		return fmt.Errorf("definition %q of source %q can't belong to %q", d.ID, d.Source, t.Identity)
	case d.ID == "" || d.Matcher == "" || d.Command == "" || d.TimeoutMS <= 0:
		return errors.New("the definition is not whole")
	case len(t.Files) == 0 || t.Files[0].Arg != 0 || len(t.Replaced) > MaxReplaced:
		return errors.New("the command's digest is missing")
	}
	for i, f := range t.Files {
		if i > 0 && f.Arg <= t.Files[i-1].Arg || f.Arg > len(d.Args) || !digestText.MatchString(f.SHA256) {
			return fmt.Errorf("digest %d is not one of a file of the definition", i)
		}
	}
	return nil
}

func decodeTrust(key, value []byte) (Trust, error) {
	var t Trust
	if err := decodeLong(value, &t, maxTrust); err != nil {
		return Trust{}, fmt.Errorf("trust entry: %w", err)
	}
	if err := t.check(); err != nil {
		return Trust{}, fmt.Errorf("trust entry: %w: %w", ErrDamaged, err)
	}
	if t.Key() != string(key) {
		return Trust{}, fmt.Errorf("trust entry: %w: it is that of another definition", ErrDamaged)
	}
	return t, nil
}

// revocations counts what was ever revoked.
type revocations struct {
	Count uint64 `json:"count"`
}

func revocationsIn(meta *bolt.Bucket) (uint64, error) {
	value := meta.Get(keyRevocations)
	if value == nil {
		return 0, nil
	}
	var r revocations
	if err := decode(value, &r); err != nil {
		return 0, fmt.Errorf("count of revocations: %w", err)
	}
	return r.Count, nil
}

// Trusts returns all that is trusted, in the order of the keys, and how many
// revocations there have been.
func (s *Store) Trusts() (all []Trust, revoked uint64, err error) {
	err = s.read("reading what is trusted", func(tx *bolt.Tx) (err error) {
		all = nil
		if revoked, err = revocationsIn(tx.Bucket(bucketMeta)); err != nil {
			return err
		}
		return each(tx, bucketTrust, func(k, v []byte) error {
			t, err := decodeTrust(k, v)
			all = append(all, t)
			return err
		})
	})
	if err != nil {
		return nil, 0, err
	}
	return all, revoked, nil
}

// PutTrust trusts a definition, in place of those in t.Replaced. It refuses with
// ErrRevokedSince when there has been a revocation that t hasn't seen: who revokes
// is never overtaken by who looked before.
func (s *Store) PutTrust(ctx context.Context, t Trust) error {
	if err := t.check(); err != nil {
		return fmt.Errorf("trusting: %w", err)
	}
	value, err := encodeLong(t, maxTrust)
	if err != nil {
		return err
	}
	key := []byte(t.Key())
	return s.write(ctx, "trusting", func(tx *bolt.Tx) error {
		count, err := revocationsIn(tx.Bucket(bucketMeta))
		if err != nil {
			return err
		}
		if count != t.Seen {
			return ErrRevokedSince
		}
		b := tx.Bucket(bucketTrust)
		if b.Get(key) == nil && b.Stats().KeyN >= maxTrusts {
			return ErrTrustFull
		}
		for _, old := range t.Replaced {
			if err := b.Delete([]byte(old)); err != nil {
				return err
			}
		}
		return b.Put(key, value)
	})
}

// RevokeTrust takes trust back, also from what nobody has trusted yet but may be
// about to. It says whether it was trusted, and how many revocations there are.
func (s *Store) RevokeTrust(ctx context.Context, key string) (was bool, count uint64, err error) {
	type outcome struct {
		was   bool
		count uint64
	}
	done := make(chan outcome, 1) // not variables: the write may outlive ctx
	err = s.write(ctx, "revoking trust", func(tx *bolt.Tx) error {
		meta, b := tx.Bucket(bucketMeta), tx.Bucket(bucketTrust)
		count, err := revocationsIn(meta)
		if err != nil {
			return err
		}
		value, err := encode(revocations{count + 1})
		if err != nil {
			return err
		}
		was := b.Get([]byte(key)) != nil
		if err := b.Delete([]byte(key)); err != nil {
			return err
		}
		done <- outcome{was, count + 1}
		return meta.Put(keyRevocations, value)
	})
	if err != nil {
		return false, 0, err
	}
	o := <-done
	return o.was, o.count, nil
}
