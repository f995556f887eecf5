package store

import (
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"leaseguard.internal/internal/wire"
)

// Project is what a session's launcher has told of its project's policy hooks. It
// lives as long as the session does.
type Project struct {
	Session    string            `json:"session"`
	Generation uint64            `json:"generation"`
	Hooks      wire.ProjectHooks `json:"hooks"`
	Text       []byte            `json:"text"` // of the file, as it was read
}

// maxProject bounds an entry: a file of the most that one may have, in base64.
const maxProject = 2 << 20

func decodeProject(key, value []byte) (Project, error) {
	var p Project
	if err := decodeLong(value, &p, maxProject); err != nil {
		return Project{}, fmt.Errorf("project entry: %w", err)
	}
	if p.Session == "" || p.Session != string(key) {
		return Project{}, fmt.Errorf("project entry: %w: session %q under key %q", ErrDamaged, p.Session, key)
	}
	return p, nil
}

// AddSession stores a new session with its project, both or none.
func (s *Store) AddSession(ctx context.Context, r Session, p Project) error {
	p.Session, p.Generation = r.ID, r.Generation
	session, err := encode(r)
	if err != nil {
		return err
	}
	project, err := encodeLong(p, maxProject)
	if err != nil {
		return err
	}
	if r.ID == "" {
		return fmt.Errorf("storing session: it has no id")
	}
	return s.write(ctx, "storing session", func(tx *bolt.Tx) error {
		if err := tx.Bucket(bucketProjects).Put([]byte(r.ID), project); err != nil {
			return err
		}
		return tx.Bucket(bucketSessions).Put([]byte(r.ID), session)
	})
}

// Projects returns the project of every session that has one, by its id.
func (s *Store) Projects() (map[string]Project, error) {
	var all map[string]Project
	err := s.read("reading projects", func(tx *bolt.Tx) error {
		all = map[string]Project{}
		return each(tx, bucketProjects, func(k, v []byte) error {
			p, err := decodeProject(k, v)
			all[p.Session] = p
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// DropProject forgets the project of one generation of a session; that of a later
// one stays.
func (s *Store) DropProject(ctx context.Context, session string, generation uint64) error {
	return s.write(ctx, "forgetting a project", func(tx *bolt.Tx) error {
		b, key := tx.Bucket(bucketProjects), []byte(session)
		value := b.Get(key)
		if value == nil {
			return nil
		}
		p, err := decodeProject(key, value)
		if err != nil || p.Generation > generation {
			return err
		}
		return b.Delete(key)
	})
}
