package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"leaseguard.internal/internal/audit"
)

// damagedFiles are what may lie in the store's place that no broker has written.
func damagedFiles(t *testing.T) map[string][]byte {
	whole := filled(t)
	foreign := filepath.Join(t.TempDir(), "other.db")
	db, err := bolt.Open(foreign, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("widgets")); return err }), db.Close()); err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(foreign)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		"cut short":                  whole[:len(whole)/2],
		"a byte":                     {0},
		"text":                       []byte(strings.Repeat("these are not the pages\n", 999)),
		"zeros":                      make([]byte, 32<<10),
		"bbolt's, of something else": other,
		"both meta pages gone":       append(bytes.Repeat([]byte{0xff}, 2*os.Getpagesize()), whole[2*os.Getpagesize():]...),
	}
}

// TestDamagedStoreIsSetAside: the damaged file is kept byte for byte under
// another name, the new store knows nothing, and no token of before works.
func TestDamagedStoreIsSetAside(t *testing.T) {
	for name, b := range damagedFiles(t) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "guard.db")
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			s, aside, err := OpenOrSetAside(path, testWall)
			if err != nil {
				t.Fatal(err)
			}
			defer closeStore(t, s)
			if want := path + ".damaged-20261129T120000Z"; aside == nil || aside.Path != want || !errors.Is(aside.Cause, ErrDamaged) {
				t.Fatalf("set aside: %+v, want as %q", aside, want)
			}
			if kept, err := os.ReadFile(aside.Path); err != nil || !bytes.Equal(kept, b) {
				t.Errorf("%d bytes were kept of %d, %v", len(kept), len(b), err)
			}
			if _, ok, err := s.Head(); ok || err != nil {
				t.Errorf("the new store has an audit head: %t, %v", ok, err)
			}
			if _, err := s.ConsumeToken(t.Context(), at(testToken(1), 1)); !errors.Is(err, ErrTokenUnknown) {
				t.Errorf("a token of before: %v", err)
			}
			if found, err := Asides(path); err != nil || !slices.Equal(found, []string{aside.Path}) {
				t.Errorf("Asides = %q, %v", found, err)
			}
		})
	}
}

func TestGoodStoreIsNotSetAside(t *testing.T) {
	s := newStore(t)
	put(t, s, testToken(1))
	closeStore(t, s)
	s, aside, err := OpenOrSetAside(s.path, testWall)
	if err != nil || aside != nil {
		t.Fatalf("%+v, %v", aside, err)
	}
	if _, err := s.ConsumeToken(t.Context(), at(testToken(1), 1)); err != nil {
		t.Error(err)
	}
	closeStore(t, s)
}

// Nothing is overwritten or deleted, also when it happens again and again in one
// second; then the broker doesn't start any more.
func TestAsidesAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guard.db")
	for n := range maxAside + 1 {
		if err := os.WriteFile(path, []byte(fmt.Sprint("damage ", n)), 0o600); err != nil {
			t.Fatal(err)
		}
		s, aside, err := OpenOrSetAside(path, testWall)
		if n == maxAside {
			if err == nil || !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "5 damaged stores lie beside it already") {
				t.Errorf("the %dth: %v", n+1, err)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		closeStore(t, s)
		if b, err := os.ReadFile(aside.Path); err != nil || string(b) != fmt.Sprint("damage ", n) {
			t.Errorf("%q holds %q, %v", aside.Path, b, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := Asides(path); err != nil || len(found) != maxAside {
		t.Errorf("%d are there, %v; want %d", len(found), err, maxAside)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != fmt.Sprint("damage ", maxAside) {
		t.Errorf("the refused one holds %q, %v", b, err)
	}
}

// Somebody else has put a good store in its place since the look at it.
func TestSetAsideTakesNoOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guard.db")
	if err := os.WriteFile(path, []byte("damage"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path)
	var d *damage
	if !errors.As(err, &d) {
		t.Fatalf("Open: %v", err)
	}
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	closeStore(t, reopen(t, path))
	if to, err := setAside(path, d.file, testWall); !errors.Is(err, ErrLocked) {
		t.Errorf("setAside = %q, %v; want ErrLocked", to, err)
	}
	closeStore(t, reopen(t, path))
}

// TestReplacedStoreFails: a store that somebody removed or replaced under the
// broker grants nothing any more.
func TestReplacedStoreFails(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"removed":         os.Remove,
		"renamed":         func(p string) error { return os.Rename(p, p+".old") },
		"directory moved": func(p string) error { return os.Rename(filepath.Dir(p), filepath.Dir(p)+".old") },
		"replaced":        func(p string) error { return errors.Join(os.Remove(p), os.WriteFile(p, filled(t), 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			s := reopen(t, filepath.Join(dir, "guard.db"))
			put(t, s, testToken(1))
			if err := change(s.path); err != nil {
				t.Fatal(err)
			}
			if _, err := s.ConsumeToken(t.Context(), at(testToken(1), 1)); err == nil || s.Err() == nil {
				t.Errorf("ConsumeToken: %v, sticky %v; want errors", err, s.Err())
			}
		})
	}
}

func TestRuns(t *testing.T) {
	s := newStore(t)
	begin := func(run string, want ...string) {
		t.Helper()
		before, err := s.BeginRun(t.Context(), run)
		if err != nil || !slices.Equal(before, want) {
			t.Fatalf("BeginRun(%s) = %q, %v; want %q", run, before, err, want)
		}
	}
	if before, err := s.BeginRun(t.Context(), "a"); before != nil || err != nil {
		t.Fatalf("the first: %q, %v; want nothing known", before, err)
	}
	if err := s.SettleRun(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	begin("b", "a")
	begin("c", "a", "b")
	if err := s.SettleRun(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * maxRuns { // none of these leaves a record
		if _, err := s.BeginRun(t.Context(), fmt.Sprint("run ", i)); err != nil {
			t.Fatal(err)
		}
	}
	closeStore(t, s)
	before, err := reopen(t, s.path).BeginRun(t.Context(), "d")
	if err != nil || len(before) != maxRuns || before[0] != "c" || before[maxRuns-1] != fmt.Sprint("run ", 3*maxRuns-1) {
		t.Errorf("after many: %q, %v; want the settled one first, the latest last", before, err)
	}
	if err := s.SettleRun(t.Context(), ""); err == nil {
		t.Error("a run without a name was kept")
	}
}

// The zero head says that the chain was empty, which is not the same as unknown.
func TestZeroHead(t *testing.T) {
	s := newStore(t)
	if _, ok, err := s.Head(); ok || err != nil {
		t.Fatalf("a new store: %t, %v; want nothing known", ok, err)
	}
	if err := s.PutHead(t.Context(), audit.Head{}); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	s = reopen(t, s.path)
	if h, ok, err := s.Head(); h != (audit.Head{}) || !ok || err != nil {
		t.Errorf("Head = %+v, %t, %v", h, ok, err)
	}
	if err := errors.Join(s.PutHead(t.Context(), audit.Head{Seq: 2, Hash: strings.Repeat("a", 64)})); err != nil {
		t.Fatal(err)
	}
	if err := s.PutHead(t.Context(), audit.Head{}); err == nil {
		t.Error("the head went back to zero")
	}
}

// TestReadOnlyOfAnotherOwner: in system mode root looks at the broker's file.
func TestReadOnlyOfAnotherOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	s := newStore(t)
	closeStore(t, s)
	if err := os.Chown(s.path, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenReadOnly(s.path, 0); err == nil || !strings.Contains(err.Error(), "its owner is uid 12345, want 0") {
		t.Errorf("as root's own: %v", err)
	}
	ro, err := OpenReadOnly(s.path, 12345)
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, ro)
}
