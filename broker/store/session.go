package store

import (
	"context"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"leaseguard.internal/internal/audit"
)

// Session is what a restarted broker needs to find a session's anchor again. It
// holds no authority.
type Session struct {
	ID         string    `json:"id"`
	Runtime    string    `json:"runtime"`
	Dir        string    `json:"dir"`
	Command    string    `json:"command"`
	BootID     string    `json:"boot_id"`
	UID        uint32    `json:"uid"`
	Generation uint64    `json:"generation"`
	PID        int       `json:"pid"`
	Inode      uint64    `json:"inode"`
	StartTime  uint64    `json:"start_time"`
	GateSeen   bool      `json:"gate_seen"`
	Started    time.Time `json:"started"`
	Server     string    `json:"server,omitempty"` // of the session's own recovery tool
	Alarm      string    `json:"alarm,omitempty"`  // what locks its promotion
	Launched   bool      `json:"launched"`         // its runtime has been exec'd
}

func decodeSession(key, value []byte) (Session, error) {
	var r Session
	if err := decode(value, &r); err != nil {
		return Session{}, fmt.Errorf("session entry: %w", err)
	}
	if r.ID == "" || r.ID != string(key) {
		return Session{}, fmt.Errorf("session entry: %w: id %q under key %q", ErrDamaged, r.ID, key)
	}
	return r, nil
}

// PutSession stores a session under its id, in place of what was there.
func (s *Store) PutSession(ctx context.Context, r Session) error {
	if r.ID == "" {
		return fmt.Errorf("storing session: it has no id")
	}
	value, err := encode(r)
	if err != nil {
		return err
	}
	return s.write(ctx, "storing session", func(tx *bolt.Tx) error {
		return tx.Bucket(bucketSessions).Put([]byte(r.ID), value)
	})
}

// DeleteSessions forgets sessions. One that isn't there is no error.
func (s *Store) DeleteSessions(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	return s.write(ctx, "deleting sessions", func(tx *bolt.Tx) error {
		for _, id := range ids {
			if err := tx.Bucket(bucketSessions).Delete([]byte(id)); err != nil {
				return fmt.Errorf("deleting session %q: %w", id, err)
			}
		}
		return nil
	})
}

// Sessions returns all sessions in the order of their ids.
func (s *Store) Sessions() ([]Session, error) {
	var out []Session
	err := s.read("reading sessions", func(tx *bolt.Tx) error {
		return tx.Bucket(bucketSessions).ForEach(func(k, v []byte) error {
			r, err := decodeSession(k, v)
			out = append(out, r)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func decodeHead(value []byte) (audit.Head, error) {
	var h audit.Head
	if err := decode(value, &h); err != nil {
		return audit.Head{}, fmt.Errorf("audit head: %w", err)
	}
	if h.Seq == 0 && h.Hash != "" || h.Seq > 0 && len(h.Hash) != 64 {
		return audit.Head{}, fmt.Errorf("audit head: %w: record %d, hash %q", ErrDamaged, h.Seq, h.Hash)
	}
	return h, nil
}

// PutHead keeps the head of the audit chain; the zero Head is that of an empty
// one. An older one than is kept already is refused, so that no late writer
// opens a gap for a cut.
func (s *Store) PutHead(ctx context.Context, h audit.Head) error {
	value, err := encode(h)
	if err != nil {
		return err
	}
	if _, err := decodeHead(value); err != nil {
		return fmt.Errorf("storing %w", err)
	}
	return s.write(ctx, "storing audit head", func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketMeta)
		if old := b.Get(keyHead); old != nil {
			was, err := decodeHead(old)
			if err != nil {
				return err
			}
			if h.Seq < was.Seq {
				return fmt.Errorf("record %d is older than record %d, which is kept", h.Seq, was.Seq)
			}
		}
		return b.Put(keyHead, value)
	})
}

// Head returns the kept head of the audit chain; ok is false when nobody has
// kept one, so that nothing is known of the chain.
func (s *Store) Head() (h audit.Head, ok bool, err error) {
	err = s.read("reading audit head", func(tx *bolt.Tx) error {
		value := tx.Bucket(bucketMeta).Get(keyHead)
		if value == nil {
			return nil
		}
		ok = true
		h, err = decodeHead(value)
		return err
	})
	return h, ok && err == nil, err
}
