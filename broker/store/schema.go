package store

import (
	"crypto/rand"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	bolt "go.etcd.io/bbolt"

	"leaseguard.internal/internal/strictjson"
)

// layout is the version of what is below. A file of a newer one is refused.
const layout = 1

var schema = strconv.Itoa(layout)

// The layout: meta holds single values, the other buckets one JSON object per
// entry.
var (
	bucketMeta     = []byte("meta")
	bucketTokens   = []byte("tokens")
	bucketSessions = []byte("sessions")
	bucketTrust    = []byte("trust")
	bucketProjects = []byte("projects")

	keySchema      = []byte("schema")
	keyKey         = []byte("input-key")
	keyHead        = []byte("audit-head")
	keyRuns        = []byte("runs")
	keyRevocations = []byte("trust-revocations")
	keyLater       = []byte("later-buckets") // there are all of laterBuckets
)

// laterBuckets came after the first release, whose files don't have them: they are
// made when such a file is opened, and read as empty before.
var laterBuckets = [][]byte{bucketTrust, bucketProjects}

// maxEntry bounds one entry, in both directions, but for those that say otherwise.
const maxEntry = 64 << 10

func encode(v any) ([]byte, error) { return encodeLong(v, maxEntry) }

func decode(b []byte, v any) error { return decodeLong(b, v, maxEntry) }

func encodeLong(v any, most int) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding store entry: %w", err)
	}
	if len(b) > most {
		return nil, fmt.Errorf("encoding store entry: %d bytes, at most %d", len(b), most)
	}
	return b, nil
}

func decodeLong(b []byte, v any, most int) error {
	if len(b) > most {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrDamaged, len(b), most)
	}
	if err := strictjson.Decode(b, v); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// prepare makes the buckets and the key of a new file, which has nothing in it.
func prepare(tx *bolt.Tx) error {
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

// checkLayout refuses what a newer guard wrote. No guard ever wrote a layout
// that is no number, or one below the first.
func checkLayout(found string) error {
	n, err := strconv.ParseUint(found, 10, 16)
	switch {
	case found == schema:
		return nil
	case err == nil && n > layout:
		return fmt.Errorf("%w: its layout is %d, and this one knows %d; run the guard that wrote it, or move the file away", ErrNewer, n, layout)
	}
	return fmt.Errorf("%w: its layout is %q", ErrDamaged, found)
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
	if err := checkLayout(string(meta.Get(keySchema))); err != nil {
		return key, err
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
	if runs := meta.Get(keyRuns); runs != nil {
		if _, err := decodeRuns(runs); err != nil {
			return key, err
		}
	}
	if _, err := passphraseIn(meta); err != nil {
		return key, err
	}
	if _, err := revocationsIn(meta); err != nil {
		return key, err
	}
	err = tx.Bucket(bucketTokens).ForEach(func(k, v []byte) error {
		_, err := decodeToken(k, v)
		return err
	})
	if err != nil {
		return key, err
	}
	err = tx.Bucket(bucketSessions).ForEach(func(k, v []byte) error {
		_, err := decodeSession(k, v)
		return err
	})
	if err != nil {
		return key, err
	}
	return key, validateLater(tx)
}

func validateLater(tx *bolt.Tx) error {
	marked := tx.Bucket(bucketMeta).Get(keyLater) != nil
	for _, name := range laterBuckets {
		if marked && tx.Bucket(name) == nil {
			return fmt.Errorf("%w: it has no bucket %q", ErrDamaged, name)
		}
	}
	err := each(tx, bucketTrust, func(k, v []byte) error {
		_, err := decodeTrust(k, v)
		return err
	})
	if err != nil {
		return err
	}
	return each(tx, bucketProjects, func(k, v []byte) error {
		_, err := decodeProject(k, v)
		return err
	})
}

// each calls f with all entries of a bucket, which need not be there.
func each(tx *bolt.Tx, bucket []byte, f func(k, v []byte) error) error {
	b := tx.Bucket(bucket)
	if b == nil {
		return nil
	}
	return b.ForEach(f)
}

// addLater makes the buckets that an older file doesn't have.
func addLater(tx *bolt.Tx) error {
	for _, name := range laterBuckets {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return fmt.Errorf("%w: making bucket %s: %w", ErrDamaged, name, err) // something else has its name
		}
	}
	return tx.Bucket(bucketMeta).Put(keyLater, []byte("1"))
}
