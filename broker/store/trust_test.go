package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"leaseguard.internal/internal/hookfile"
	"leaseguard.internal/internal/wire"
)

func testTrust(id string, seen uint64) Trust {
	return Trust{
		Identity:   hookfile.ProjectIdentity("/srv/app"),
		Definition: hookfile.Definition{ID: id, Source: hookfile.Project, Matcher: "Bash", Command: "/bin/" + id, Args: []string{"/x.sh"}, TimeoutMS: 3000, Enabled: true, OnError: hookfile.Deny},
		Files:      []wire.HookFile{{Arg: 0, SHA256: strings.Repeat("0", 64)}, {Arg: 1, SHA256: strings.Repeat("f", 64)}},
		Seen:       seen, At: testWall, By: 1000, Replaced: []string{},
	}
}

func trusted(t *testing.T, s *Store) (keys map[string]uint64, revoked uint64) {
	t.Helper()
	all, revoked, err := s.Trusts()
	if err != nil {
		t.Fatal(err)
	}
	keys = map[string]uint64{}
	for _, r := range all {
		keys[r.Definition.ID] = r.Seen
	}
	return keys, revoked
}

// TestM13_TrustAndRevoke: trusting puts one record for a definition, a revocation
// takes it away, also one of what isn't trusted, and each outlives the store.
func TestM13_TrustAndRevoke(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guard.db")
	s := reopen(t, path)
	a, b := testTrust("a", 0), testTrust("b", 0)
	for _, r := range []Trust{a, b, a} {
		if err := s.PutTrust(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if keys, _ := trusted(t, s); len(keys) != 2 {
		t.Errorf("trusted twice: %v", keys)
	}
	if was, n, err := s.RevokeTrust(t.Context(), a.Key()); !was || n != 1 || err != nil {
		t.Errorf("RevokeTrust = %t, %d, %v", was, n, err)
	}
	if was, n, err := s.RevokeTrust(t.Context(), a.Key()); was || n != 2 || err != nil {
		t.Errorf("revoking what isn't trusted = %t, %d, %v", was, n, err)
	}
	if err := s.PutTrust(t.Context(), testTrust("a", 1)); !errors.Is(err, ErrRevokedSince) {
		t.Errorf("trusting by who looked before the last revocation: %v", err)
	}
	c := testTrust("c", 2)
	c.Replaced = []string{b.Key()}
	if err := s.PutTrust(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	s = reopen(t, path)
	all, n, err := s.Trusts()
	if diff := cmp.Diff([]Trust{c}, all); diff != "" || n != 2 || err != nil {
		t.Errorf("after a restart: %d, %v\n%s", n, err, diff)
	}
	closeStore(t, s)
	checkConsistent(t, path)
}

// TestM12_TrustIsWhole: what names too little, or what no hook file can hold, is
// refused, and changes nothing.
func TestM12_TrustIsWhole(t *testing.T) {
	s := newStore(t)
	for name, change := range map[string]func(*Trust){
		"no identity":              func(r *Trust) { r.Identity = "" },
		"project's for the user":   func(r *Trust) { r.Identity = hookfile.UserIdentity },
		"user's for a project":     func(r *Trust) { r.Definition.Source = hookfile.User },
		"no source":                func(r *Trust) { r.Definition.Source = "" },
		"no id":                    func(r *Trust) { r.Definition.ID = "" },
		"no command":               func(r *Trust) { r.Definition.Command = "" },
		"no matcher":               func(r *Trust) { r.Definition.Matcher = "" },
		"no timeout":               func(r *Trust) { r.Definition.TimeoutMS = 0 },
		"no digest":                func(r *Trust) { r.Files = nil },
		"no digest of the command": func(r *Trust) { r.Files = r.Files[1:] },
		"digest in capitals":       func(r *Trust) { r.Files[0].SHA256 = strings.Repeat("F", 64) },
		"digest cut off":           func(r *Trust) { r.Files[0].SHA256 = "00" },
		"digest of no argument":    func(r *Trust) { r.Files[1].Arg = 2 },
		"digests in disorder":      func(r *Trust) { r.Files[1].Arg = 0 },
		"too much replaced":        func(r *Trust) { r.Replaced = make([]string, MaxReplaced+1) },
		"longer than any file":     func(r *Trust) { r.Definition.Command += strings.Repeat("x", maxTrust) },
	} {
		r := testTrust("a", 0)
		change(&r)
		if err := s.PutTrust(t.Context(), r); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if keys, _ := trusted(t, s); len(keys) != 0 || s.Err() != nil {
		t.Errorf("trusted %v, store %v", keys, s.Err())
	}
}

// TestM12_AtMost4096: one more is refused and changes nothing; one that is there
// may be trusted again.
func TestM12_AtMost4096(t *testing.T) {
	s := newStore(t)
	err := s.write(t.Context(), "filling", func(tx *bolt.Tx) error {
		for i := range maxTrusts {
			r := testTrust(fmt.Sprintf("h%d", i), 0)
			value, err := encodeLong(r, maxTrust)
			if err != nil {
				return err
			}
			if err := tx.Bucket(bucketTrust).Put([]byte(r.Key()), value); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.PutTrust(t.Context(), testTrust("more", 0)); !errors.Is(err, ErrTrustFull) {
		t.Errorf("one more: %v", err)
	}
	if err := s.PutTrust(t.Context(), testTrust("h7", 0)); err != nil {
		t.Errorf("one of them: %v", err)
	}
	if keys, _ := trusted(t, s); len(keys) != maxTrusts || keys["more"] != 0 {
		t.Errorf("%d are trusted", len(keys))
	}
}

// TestW11_NoRevocationIsLostAmongGoroutines: whoever has revoked finds the
// definition trusted afterwards only by somebody who knew of that.
func TestW11_NoRevocationIsLostAmongGoroutines(t *testing.T) {
	s := newStore(t)
	key := testTrust("a", 0).Key()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				_, seen, err := s.Trusts()
				if err == nil {
					err = s.PutTrust(context.Background(), testTrust("a", seen))
				}
				if err != nil && !errors.Is(err, ErrRevokedSince) {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 20 {
				_, n, err := s.RevokeTrust(context.Background(), key)
				if err != nil {
					t.Error(err)
				}
				if keys, _ := trusted(t, s); keys["a"] != 0 && keys["a"] < n {
					t.Errorf("revocation %d is undone by who had seen %d", n, keys["a"])
				}
			}
		})
	}
	wg.Wait()
	if _, n := trusted(t, s); n != 160 {
		t.Errorf("%d revocations", n)
	}
}

// TestDamagedTrustIsNotNone: an entry that can't be read, or that stands under
// another's key, refuses the file; so does a bucket that is gone.
func TestDamagedTrustIsNotNone(t *testing.T) {
	good, err := encodeLong(testTrust("a", 0), maxTrust)
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(*bolt.Tx) error{
		"no JSON":     func(tx *bolt.Tx) error { return tx.Bucket(bucketTrust).Put([]byte("k"), []byte("x")) },
		"another key": func(tx *bolt.Tx) error { return tx.Bucket(bucketTrust).Put([]byte("k"), good) },
		"not whole":   func(tx *bolt.Tx) error { return tx.Bucket(bucketTrust).Put([]byte("k"), []byte(`{"seen":1}`)) },
		"no bucket":   func(tx *bolt.Tx) error { return tx.DeleteBucket(bucketTrust) },
		"count":       func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyRevocations, []byte("7")) },
		"project":     func(tx *bolt.Tx) error { return tx.Bucket(bucketProjects).Put([]byte("k"), []byte("{}")) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "guard.db")
			s := reopen(t, path)
			if err := s.write(t.Context(), "damaging", damage); err != nil {
				t.Fatal(err)
			}
			closeStore(t, s)
			if _, err := Open(path); !errors.Is(err, ErrDamaged) {
				t.Errorf("Open = %v", err)
			}
		})
	}
}

// TestProjectLivesWithItsSession: it comes with the session's record, and goes by
// generation: the end of one that is told late takes nothing from the next.
func TestProjectLivesWithItsSession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guard.db")
	s := reopen(t, path)
	p := Project{Hooks: wire.ProjectHooks{State: wire.ProjectRead}, Text: []byte(strings.Repeat("é", 40<<10))} // above what other entries may have
	for _, r := range []Session{{ID: "a", Generation: 1}, {ID: "a", Generation: 2}, {ID: "b", Generation: 1}} {
		if err := s.AddSession(t.Context(), r, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.DropProject(t.Context(), "a", 1), s.DropProject(t.Context(), "b", 1), s.DropProject(t.Context(), "c", 1)); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	s = reopen(t, path)
	p.Session, p.Generation = "a", 2
	all, err := s.Projects()
	if diff := cmp.Diff(map[string]Project{"a": p}, all); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if sessions, err := s.Sessions(); err != nil || len(sessions) != 2 {
		t.Errorf("%d sessions, %v", len(sessions), err)
	}
	if err := s.AddSession(t.Context(), Session{ID: "d"}, Project{Text: make([]byte, maxProject)}); err == nil {
		t.Error("a project of any size is kept")
	}
}
