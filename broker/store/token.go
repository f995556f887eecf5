package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"leaseguard.internal/internal/clock"
)

// States of a token.
const (
	Minted   = "minted"
	Consumed = "consumed"
)

// Purposes of a token.
const (
	purposePromote = "promote"
	purposeRenew   = "renew"
)

// Token is what is kept of a token: never itself, only its hash and what it is
// bound to.
type Token struct {
	Hash       [32]byte
	Session    string
	Generation uint64
	Cycle      uint64
	Purpose    string // promote or renew
	Binding    [32]byte
	Anchor     string
	Epoch      string        // the run of the broker that minted it
	Expires    clock.Instant // of that run's boot
	State      string
	Wall       time.Time // when it was minted, for Prune
}

// tokenEntry is a token as it stands in the file, under its hash.
type tokenEntry struct {
	Session    string    `json:"session"`
	Generation uint64    `json:"generation"`
	Cycle      uint64    `json:"cycle"`
	Purpose    string    `json:"purpose"`
	Binding    string    `json:"binding"`
	Anchor     string    `json:"anchor"`
	Epoch      string    `json:"epoch"`
	ExpiresNS  int64     `json:"expires_ns"`
	State      string    `json:"state"`
	Wall       time.Time `json:"wall"`
}

// complete says which field a token lacks. What isn't bound could be anything.
func (t Token) complete() error {
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"hash", t.Hash != [32]byte{}},
		{"session", t.Session != ""},
		{"generation", t.Generation > 0},
		{"cycle", t.Cycle > 0},
		{"purpose", t.Purpose == purposePromote || t.Purpose == purposeRenew},
		{"binding", t.Binding != [32]byte{}},
		{"anchor", t.Anchor != ""},
		{"epoch", t.Epoch != ""},
		{"expires", t.Expires > 0},
		{"wall", !t.Wall.IsZero()},
	} {
		if !f.has {
			return fmt.Errorf("%w: no %s", ErrTokenIncomplete, f.name)
		}
	}
	return nil
}

func encodeToken(t Token) ([]byte, error) {
	return encode(tokenEntry{
		Session: t.Session, Generation: t.Generation, Cycle: t.Cycle, Purpose: t.Purpose,
		Binding: hex.EncodeToString(t.Binding[:]), Anchor: t.Anchor, Epoch: t.Epoch,
		ExpiresNS: int64(t.Expires), State: t.State, Wall: t.Wall,
	})
}

func decodeToken(key, value []byte) (Token, error) {
	var e tokenEntry
	if err := decode(value, &e); err != nil {
		return Token{}, fmt.Errorf("token entry: %w", err)
	}
	t := Token{
		Session: e.Session, Generation: e.Generation, Cycle: e.Cycle, Purpose: e.Purpose, Anchor: e.Anchor,
		Epoch: e.Epoch, Expires: clock.Instant(e.ExpiresNS), State: e.State, Wall: e.Wall,
	}
	binding, err := hex.DecodeString(e.Binding)
	if err != nil || len(binding) != len(t.Binding) || len(key) != len(t.Hash) {
		return Token{}, fmt.Errorf("token entry: %w: hash or binding isn't 32 bytes", ErrDamaged)
	}
	t.Hash, t.Binding = [32]byte(key), [32]byte(binding)
	if t.State != Minted && t.State != Consumed {
		return Token{}, fmt.Errorf("token entry: %w: state %q", ErrDamaged, t.State)
	}
	if err := t.complete(); err != nil {
		return Token{}, fmt.Errorf("token entry: %w: %w", ErrDamaged, err)
	}
	return t, nil
}

// PutToken stores a token as minted. One that is there already is refused:
// storing it again would make it usable again.
func (s *Store) PutToken(ctx context.Context, t Token) error {
	t.State = Minted
	if err := t.complete(); err != nil {
		return fmt.Errorf("storing token: %w", err)
	}
	value, err := encodeToken(t)
	if err != nil {
		return err
	}
	return s.write(ctx, "storing token", func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketTokens)
		if b.Get(t.Hash[:]) != nil {
			return ErrTokenUsed
		}
		return b.Put(t.Hash[:], value)
	})
}

// ConsumeToken uses a token up: in one transaction it must exist, be minted, be
// bound to all that want says, and end after want.Expires, which is now. The
// attempt consumes it whatever comes out. The returned token is the stored one,
// also beside ErrTokenUsed, ErrTokenMismatch and ErrTokenExpired.
func (s *Store) ConsumeToken(ctx context.Context, want Token) (Token, error) {
	found := make(chan Token, 1) // not a variable: the write may outlive ctx
	err := s.write(ctx, "consuming token", func(tx *bolt.Tx) error {
		t, err := burn(tx, want.Hash)
		found <- t
		if err != nil {
			return err
		}
		return t.fits(want)
	})
	if err != nil && s.Err() != nil {
		return Token{}, err
	}
	select {
	case t := <-found:
		return t, err
	default:
		return Token{}, err
	}
}

// BurnToken consumes a token that a failed attempt has shown. One that is used
// or unknown already is no error.
func (s *Store) BurnToken(ctx context.Context, hash [32]byte) error {
	return s.write(ctx, "burning token", func(tx *bolt.Tx) error {
		if _, err := burn(tx, hash); err != nil && !errors.Is(err, ErrTokenUsed) && !errors.Is(err, ErrTokenUnknown) {
			return err
		}
		return nil
	})
}

// burn marks a minted token as consumed and returns it.
func burn(tx *bolt.Tx, hash [32]byte) (Token, error) {
	b := tx.Bucket(bucketTokens)
	value := b.Get(hash[:])
	if value == nil {
		return Token{}, ErrTokenUnknown
	}
	t, err := decodeToken(hash[:], value)
	if err != nil {
		return Token{}, err
	}
	if t.State != Minted {
		return t, ErrTokenUsed
	}
	t.State = Consumed
	if value, err = encodeToken(t); err != nil {
		return Token{}, err
	}
	return t, b.Put(hash[:], value)
}

// fits compares all that a token is bound to.
func (t Token) fits(want Token) error {
	for _, f := range []struct {
		name string
		same bool
	}{
		{"session", t.Session == want.Session},
		{"generation", t.Generation == want.Generation},
		{"cycle", t.Cycle == want.Cycle},
		{"purpose", t.Purpose == want.Purpose},
		{"binding", t.Binding == want.Binding},
		{"anchor", t.Anchor == want.Anchor},
		{"epoch", t.Epoch == want.Epoch},
	} {
		if !f.same {
			return &MismatchError{f.name}
		}
	}
	if want.Expires >= t.Expires {
		return ErrTokenExpired
	}
	return nil
}

// LookupToken finds a token by its hash and changes nothing.
func (s *Store) LookupToken(hash [32]byte) (t Token, found bool, err error) {
	err = s.read("looking up token", func(tx *bolt.Tx) error {
		value := tx.Bucket(bucketTokens).Get(hash[:])
		if value == nil {
			return nil
		}
		found = true
		t, err = decodeToken(hash[:], value)
		return err
	})
	return t, found && err == nil, err
}

// Prune forgets tokens that were minted before the given time. A forgotten
// token is unknown and can't be used, so a clock that was wrong grants nothing.
func (s *Store) Prune(ctx context.Context, before time.Time) error {
	return s.write(ctx, "pruning tokens", func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketTokens)
		var old [][]byte
		err := b.ForEach(func(k, v []byte) error {
			t, err := decodeToken(k, v)
			if err == nil && t.Wall.Before(before) {
				old = append(old, t.Hash[:])
			}
			return err
		})
		if err != nil {
			return err
		}
		for _, k := range old {
			if err := b.Delete(k); err != nil {
				return fmt.Errorf("deleting a token: %w", err)
			}
		}
		return nil
	})
}
