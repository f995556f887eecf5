package store

import (
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"leaseguard.internal/internal/passphrase"
)

var keyPassphrase = []byte("operator-passphrase")

// ErrPassphraseChanged says that the passphrase isn't the one any more that the
// change was to replace.
var ErrPassphraseChanged = errors.New("passphrase was changed meanwhile")

// Passphrase returns the hash of the operators' passphrase, the zero one when
// none is set.
func (s *Store) Passphrase() (h passphrase.Hash, err error) {
	err = s.read("reading the passphrase's hash", func(tx *bolt.Tx) error {
		h, err = passphraseIn(tx.Bucket(bucketMeta))
		return err
	})
	if err != nil {
		return passphrase.Hash{}, err
	}
	return h, nil
}

// ReplacePassphrase puts next in the place of was, in one transaction: of two
// that know the same passphrase and change it at once, one is refused. The zero
// hash stands for none, on either side.
func (s *Store) ReplacePassphrase(ctx context.Context, was, next passphrase.Hash) error {
	return s.write(ctx, "storing the passphrase's hash", func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketMeta)
		switch now, err := passphraseIn(b); {
		case err != nil:
			return err
		case now != was:
			return ErrPassphraseChanged
		case next == passphrase.Hash{}:
			return b.Delete(keyPassphrase)
		}
		return b.Put(keyPassphrase, []byte(next.PHC()))
	})
}

// passphraseIn reads the entry. One that can't be read is never none.
func passphraseIn(meta *bolt.Bucket) (passphrase.Hash, error) {
	value := meta.Get(keyPassphrase)
	if value == nil {
		return passphrase.Hash{}, nil
	}
	h, err := passphrase.Parse(string(value))
	if err != nil {
		return passphrase.Hash{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return h, nil
}
