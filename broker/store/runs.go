package store

import (
	"context"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// Each run of the broker writes its epoch down here before it writes its first
// audit record. So a record of a run that isn't known here tells that the store
// is an older copy than the audit.

// maxRuns bounds the list. Only runs that ended before their first record was
// on disk make it longer than two.
const maxRuns = 16

// runsEntry is the list as it stands in the file.
type runsEntry struct {
	Epochs []string `json:"epochs"`
}

func decodeRuns(value []byte) ([]string, error) {
	var e runsEntry
	if err := decode(value, &e); err != nil {
		return nil, fmt.Errorf("runs of the broker: %w", err)
	}
	runs := e.Epochs
	if len(runs) == 0 || len(runs) > maxRuns || slices.Contains(runs, "") {
		return nil, fmt.Errorf("runs of the broker: %w: %d of them, or one without a name", ErrDamaged, len(runs))
	}
	return runs, nil
}

// BeginRun adds a run and returns those before it: the last whose records are
// surely on disk, and all since. It returns nil when nobody has kept them yet.
func (s *Store) BeginRun(ctx context.Context, epoch string) ([]string, error) {
	before := make(chan []string, 1) // not a variable: the write may outlive ctx
	err := s.write(ctx, "noting this run of the broker", func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketMeta)
		var runs []string
		if value := b.Get(keyRuns); value != nil {
			var err error
			if runs, err = decodeRuns(value); err != nil {
				return err
			}
		}
		before <- slices.Clone(runs)
		if len(runs) == maxRuns { // all but the first have left no record
			runs = slices.Delete(runs, 1, 2)
		}
		return putRuns(b, append(runs, epoch))
	})
	if err != nil {
		return nil, err
	}
	return <-before, nil
}

// SettleRun says that records of the run are on disk: older ones can't be the
// last any more.
func (s *Store) SettleRun(ctx context.Context, epoch string) error {
	return s.write(ctx, "settling this run of the broker", func(tx *bolt.Tx) error {
		return putRuns(tx.Bucket(bucketMeta), []string{epoch})
	})
}

func putRuns(b *bolt.Bucket, runs []string) error {
	value, err := encode(runsEntry{runs})
	if err != nil {
		return err
	}
	if _, err := decodeRuns(value); err != nil {
		return err
	}
	return b.Put(keyRuns, value)
}
