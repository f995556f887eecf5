package store

import (
	"crypto/rand"
	"fmt"

	"github.com/go-json-experiment/json"
	bolt "go.etcd.io/bbolt"

	"leaseguard.internal/internal/strictjson"
)

// schema is the layout's version. A file of another one is refused.
const schema = "1"

// The layout: meta holds single values, the other buckets one JSON object per
// entry.
var (
	bucketMeta     = []byte("meta")
	bucketTokens   = []byte("tokens")
	bucketSessions = []byte("sessions")

	keySchema = []byte("schema")
	keyKey    = []byte("input-key")
	keyHead   = []byte("audit-head")
)

// maxEntry bounds one entry, in both directions.
const maxEntry = 64 << 10

func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding store entry: %w", err)
	}
	if len(b) > maxEntry {
		return nil, fmt.Errorf("encoding store entry: %d bytes, at most %d", len(b), maxEntry)
	}
	return b, nil
}

func decode(b []byte, v any) error {
	if len(b) > maxEntry {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrDamaged, len(b), maxEntry)
	}
	if err := strictjson.Decode(b, v); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// prepare makes the buckets and the key of a new file. A file that has anything
// in it isn't new, however damaged.
func prepare(tx *bolt.Tx) error {
	if k, _ := tx.Cursor().First(); k != nil {
		return nil
	}
	for _, name := range [][]byte{bucketMeta, bucketTokens, bucketSessions} {
		if _, err := tx.CreateBucket(name); err != nil {
			return fmt.Errorf("making bucket %s: %w", name, err)
		}
	}
	var key [32]byte
	if _, err := rand.Read(key[:]); err != nil {
		return fmt.Errorf("drawing the store's key: %w", err)
	}
	meta := tx.Bucket(bucketMeta)
	if err := meta.Put(keyKey, key[:]); err != nil {
		return fmt.Errorf("storing the key: %w", err)
	}
	return meta.Put(keySchema, []byte(schema))
}

// validate reads every entry, so that damage is found before anything relies on
// the file, and returns the key.
func validate(tx *bolt.Tx) (key [32]byte, err error) {
	for _, name := range [][]byte{bucketMeta, bucketTokens, bucketSessions} {
		if tx.Bucket(name) == nil {
			return key, fmt.Errorf("%w: it has no bucket %q", ErrDamaged, name)
		}
	}
	meta := tx.Bucket(bucketMeta)
	if v := meta.Get(keySchema); string(v) != schema {
		return key, fmt.Errorf("layout %q isn't %q: it was written by another version of guard", v, schema)
	}
	v := meta.Get(keyKey)
	if len(v) != len(key) || [32]byte(v) == key {
		return key, fmt.Errorf("%w: its key has %d bytes or is zero", ErrDamaged, len(v))
	}
	key = [32]byte(v)
	if head := meta.Get(keyHead); head != nil {
		if _, err := decodeHead(head); err != nil {
			return key, err
		}
	}
	err = tx.Bucket(bucketTokens).ForEach(func(k, v []byte) error {
		_, err := decodeToken(k, v)
		return err
	})
	if err != nil {
		return key, err
	}
	return key, tx.Bucket(bucketSessions).ForEach(func(k, v []byte) error {
		_, err := decodeSession(k, v)
		return err
	})
}
