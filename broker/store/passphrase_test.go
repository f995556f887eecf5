package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	bolt "go.etcd.io/bbolt"

	"leaseguard.internal/internal/passphrase"
)

// testHash is the hash of a passphrase that nobody knows.
func testHash(t testing.TB, n byte) passphrase.Hash {
	t.Helper()
	h, err := passphrase.Parse("$argon2id$v=19$m=7168,t=1,p=1$" + strings.Repeat("A", 21) + string("AQgw"[n%4]) + "$" + strings.Repeat("B", 42) + "A")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestReplacePassphrase: a change names what it replaces, and outlives the store.
func TestReplacePassphrase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guard.db")
	s := reopen(t, path)
	none, one, two := passphrase.Hash{}, testHash(t, 1), testHash(t, 2)
	for _, step := range []struct {
		name           string
		was, next, now passphrase.Hash
		refused        bool
	}{
		{"removing none", none, none, none, false},
		{"changing one that isn't there", one, two, none, true},
		{"the first", none, one, one, false},
		{"a first again", none, two, one, true},
		{"a change of another", two, two, one, true},
		{"a change", one, two, two, false},
		{"the same change again", one, two, two, true},
		{"removing another", one, none, two, true},
		{"removing it", two, none, none, false},
		{"one more", none, two, two, false},
	} {
		err := s.ReplacePassphrase(t.Context(), step.was, step.next)
		if errors.Is(err, ErrPassphraseChanged) != step.refused || !step.refused && err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		if now, err := s.Passphrase(); err != nil || now != step.now {
			t.Fatalf("%s: %v, or it isn't what it should be", step.name, err)
		}
	}
	closeStore(t, s)
	if now, err := reopen(t, path).Passphrase(); err != nil || now != two {
		t.Errorf("after a restart: %v, or another one", err)
	}
}

// replaceOnce replaces hash 1 by hash 2, and says so when it is done.
func replaceOnce(s *Store) int {
	one, err := s.Passphrase()
	if err != nil {
		return 1
	}
	two, err := passphrase.Parse(os.Getenv(childNext))
	if err == nil {
		err = s.ReplacePassphrase(context.Background(), one, two)
	}
	fmt.Println("replaced", err)
	return 0
}

// childNext is the hash that replaceOnce stores.
const childNext = "GUARD_TEST_STORE_NEXT"

// TestReplacePassphraseRace: of many changes of the same one, one wins.
func TestReplacePassphraseRace(t *testing.T) {
	s := newStore(t)
	var wg sync.WaitGroup
	won := make(chan byte, 64)
	for n := range byte(64) {
		wg.Go(func() {
			switch err := s.ReplacePassphrase(context.Background(), passphrase.Hash{}, testHash(t, n)); {
			case err == nil:
				won <- n
			case !errors.Is(err, ErrPassphraseChanged):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Fatalf("%d changes won", len(won))
	}
	if now, err := s.Passphrase(); err != nil || now != testHash(t, <-won) {
		t.Errorf("the winner's isn't kept: %v", err)
	}
}

// TestDamagedPassphraseIsNotNone: an entry that can't be read refuses, in a
// store that is open and at its next opening.
func TestDamagedPassphraseIsNotNone(t *testing.T) {
	for name, value := range map[string]string{"empty": "", "text": "secret words", "weak": "$argon2id$v=19$m=8,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$" + strings.Repeat("A", 43)} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "guard.db")
			s := reopen(t, path)
			err := s.write(t.Context(), "damaging", func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyPassphrase, []byte(value)) })
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Passphrase(); !errors.Is(err, ErrDamaged) {
				t.Errorf("Passphrase = %v", err)
			}
			if err := s.ReplacePassphrase(t.Context(), passphrase.Hash{}, testHash(t, 1)); !errors.Is(err, ErrDamaged) {
				t.Errorf("ReplacePassphrase = %v", err)
			}
			closeStore(t, s)
			if _, err := Open(path); !errors.Is(err, ErrDamaged) {
				t.Errorf("Open = %v", err)
			}
		})
	}
}
