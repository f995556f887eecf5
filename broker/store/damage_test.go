package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"leaseguard.internal/internal/audit"
)

// filled returns the bytes of a store with branch pages and all kinds of
// entries.
func filled(t testing.TB) []byte {
	t.Helper()
	s := newStore(t)
	if err := s.write(t.Context(), "test", func(tx *bolt.Tx) error {
		for n := range byte(40) {
			value, err := encodeToken(testToken(n))
			if err != nil {
				return err
			}
			hash := testToken(n).Hash
			if err := tx.Bucket(bucketTokens).Put(hash[:], value); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.PutSession(t.Context(), Session{ID: "a"}),
		s.PutHead(t.Context(), audit.Head{Seq: 1, Hash: strings.Repeat("a", 64)})); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	b, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// openDamaged opens a file with these bytes. It has to be refused with the
// remedy, or to work and to be consistent.
func openDamaged(t *testing.T, path string, b []byte) (refused bool) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path)
	if err != nil {
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) {
			t.Fatalf("refused with %v", err)
		}
		return true
	}
	if _, err := s.ConsumeToken(t.Context(), at(testToken(200), 1)); !errors.Is(err, ErrTokenUnknown) {
		t.Fatalf("accepted, then: %v", err)
	}
	closeStore(t, s)
	checkConsistent(t, path)
	return false
}

func TestDamageIsRefusedOrHarmless(t *testing.T) {
	whole, path := filled(t), filepath.Join(t.TempDir(), "guard.db")
	if openDamaged(t, path, bytes.Clone(whole)) {
		t.Fatal("the undamaged file was refused")
	}
	page := os.Getpagesize()
	refused, tried := 0, 0
	flip := func(i int, mask byte) {
		b := bytes.Clone(whole)
		b[i] ^= mask
		tried++
		// What the walk refuses, Open refuses; that one of them is refused is
		// tried below.
		if checkTree(bytes.NewReader(b), int64(len(b))) != nil || openDamaged(t, path, b) {
			refused++
		}
	}
	for p := 0; p < len(whole)/page; p++ {
		for i := 0; i < 80; i += 1 + p/2 { // meta pages whole, of others header and first elements
			flip(p*page+i, byte(1)<<(i%8))
		}
		for i := 80; i < page; i += 631 {
			flip(p*page+i, 0xff)
		}
	}
	whole[12] ^= 1
	whole[page+16] ^= 1
	whole[16] ^= 1
	if !openDamaged(t, path, whole) {
		t.Error("a file without a valid meta page was accepted")
	}
	if refused == 0 {
		t.Error("no damage at all was found")
	}
	t.Logf("%d of %d damaged files refused", refused, tried)
}

func TestTruncatedIsRefused(t *testing.T) {
	whole, path := filled(t), filepath.Join(t.TempDir(), "guard.db")
	for size := 1; size < len(whole); size += 1021 {
		openDamaged(t, path, whole[:size])
	}
	for _, size := range []int{1, 80, 4095, 4096, 8191, 8192, 12288} {
		if !openDamaged(t, path, whole[:size]) {
			t.Errorf("a file cut to %d bytes was accepted", size)
		}
	}
}

func TestDamagedEntriesAreRefused(t *testing.T) {
	for name, damage := range map[string]func(*bolt.Tx) error{
		"token that isn't JSON": func(tx *bolt.Tx) error { return tx.Bucket(bucketTokens).Put(bytes.Repeat([]byte{1}, 32), []byte("x")) },
		"token of no state": func(tx *bolt.Tx) error {
			tok := testToken(1)
			tok.State = ""
			value, err := encodeToken(tok)
			if err != nil {
				return err
			}
			return tx.Bucket(bucketTokens).Put(tok.Hash[:], value)
		},
		"session under another id": func(tx *bolt.Tx) error { return tx.Bucket(bucketSessions).Put([]byte("b"), []byte(`{"id":"a"}`)) },
		"session with a folded key": func(tx *bolt.Tx) error {
			return tx.Bucket(bucketSessions).Put([]byte("a"), []byte(`{"id":"a","PID":3}`))
		},
		"head without hash": func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyHead, []byte(`{"seq":3,"hash":""}`)) },
		"short key":         func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyKey, []byte("short")) },
		"zero key":          func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyKey, make([]byte, 32)) },
		"no bucket":         func(tx *bolt.Tx) error { return tx.DeleteBucket(bucketTokens) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			if err := s.write(t.Context(), "test", damage); err != nil {
				t.Fatal(err)
			}
			closeStore(t, s)
			if _, err := Open(s.path); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "guard broker start") {
				t.Errorf("Open: %v, want ErrDamaged with the remedy", err)
			}
		})
	}
}

// Somebody shortens the file under its memory map: an error, no crash.
func TestTruncatedWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guard.db")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, testToken(1))
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.LookupToken(testToken(1).Hash); !errors.Is(err, ErrDamaged) {
		t.Errorf("reading: %v, want ErrDamaged", err)
	}
	if _, err := s.ConsumeToken(t.Context(), at(testToken(1), 1)); err == nil || s.Err() == nil {
		t.Errorf("writing: %v, sticky %v, want errors", err, s.Err())
	}
	if err := s.Close(); err != nil {
		t.Logf("closing a damaged store: %v", err)
	}
}

func FuzzCheckTree(f *testing.F) {
	whole := filled(f)
	f.Add(whole)
	f.Add(whole[:4096])
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := checkTree(bytes.NewReader(b), int64(len(b))); err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("error %v isn't ErrDamaged", err)
		}
	})
}

func FuzzDecodeEntries(f *testing.F) {
	value, err := encodeToken(testToken(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.Repeat([]byte{1}, 32), value)
	f.Add([]byte("a"), []byte(`{"id":"a","generation":3}`))
	f.Add([]byte("a"), []byte(`{"seq":1,"hash":"`+strings.Repeat("0", 64)+`"}`))
	f.Add([]byte("a"), []byte(`{"state":"minted","STATE":"consumed"}`))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if tok, err := decodeToken(key, value); err == nil {
			again, err := encodeToken(tok)
			if err != nil {
				t.Fatal(err)
			}
			if same, err := decodeToken(key, again); err != nil || !same.Wall.Equal(tok.Wall) || same.fits(at(tok, 0)) != nil && tok.Expires > 0 {
				t.Errorf("round trip: %+v, %v", same, err)
			}
		} else if !errors.Is(err, ErrDamaged) {
			t.Errorf("token error %v isn't ErrDamaged", err)
		}
		if s, err := decodeSession(key, value); err == nil && s.ID != string(key) {
			t.Errorf("session %q under key %q", s.ID, key)
		}
		if h, err := decodeHead(value); err == nil && h.Seq == 0 {
			t.Errorf("head %+v", h)
		}
	})
}
