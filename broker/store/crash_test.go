package store

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// checkFile opens the file as bbolt alone would and lets it check itself.
func checkConsistent(t *testing.T, path string) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			t.Errorf("check: %v", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// assertOnce holds what a killed child said against what the store says now:
// what was consumed stays so, and nothing can be used twice.
func assertOnce(t *testing.T, path string, minted, consumed map[byte]bool) {
	t.Helper()
	checkConsistent(t, path)
	s := reopen(t, path)
	for n := range minted {
		_, err := s.ConsumeToken(t.Context(), at(testToken(n), 1))
		if consumed[n] && !errors.Is(err, ErrTokenUsed) {
			t.Errorf("token %d was consumed before the kill, and now: %v", n, err)
		}
		if err != nil && !errors.Is(err, ErrTokenUsed) {
			t.Errorf("token %d was minted before the kill, and now: %v", n, err)
		}
		if _, err := s.ConsumeToken(t.Context(), at(testToken(n), 1)); !errors.Is(err, ErrTokenUsed) {
			t.Errorf("token %d: second use after the kill: %v", n, err)
		}
	}
	closeStore(t, s)
}

// said reads the child's report to its end or up to so many lines.
func said(out *bufio.Scanner, lines int) (minted, consumed map[byte]bool) {
	minted, consumed = map[byte]bool{}, map[byte]bool{}
	for i := 0; i < lines && out.Scan(); i++ {
		var n byte
		if _, err := fmt.Sscanf(out.Text(), "minted %d", &n); err == nil {
			minted[n] = true
		}
		if _, err := fmt.Sscanf(out.Text(), "consumed %d", &n); err == nil {
			consumed[n] = true
		}
	}
	return minted, consumed
}

func TestV1_KilledAnywhere(t *testing.T) {
	for _, lines := range []int{0, 1, 2, 3, 7, 20, 41} {
		t.Run(fmt.Sprintf("after %d lines", lines), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "guard.db")
			c := startChild(t, "consume", path)
			minted, consumed := said(c.out, lines)
			c.kill(t)
			if _, err := os.Stat(path); lines == 0 && errors.Is(err, os.ErrNotExist) {
				return
			}
			assertOnce(t, path, minted, consumed)
		})
	}
}

// The disk is full from some commit on (RLIMIT_FSIZE): what was acknowledged
// stays, nothing is granted any more, and SIGXFSZ doesn't end the broker.
func TestB3_DiskFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guard.db")
	out, err := command("full", path).Output()
	if err != nil {
		t.Fatalf("child: %v, said %q", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if got, want := lines[len(lines)-1], "full sticky=true consume=false read=true put=false"; got != want {
		t.Fatalf("child said %q, want %q", got, want)
	}
	checkConsistent(t, path)
	s := reopen(t, path)
	for i := range len(lines) - 1 {
		tok := testToken(byte(i))
		tok.Hash[2] = byte(i >> 8)
		if _, found, err := s.LookupToken(tok.Hash); !found || err != nil {
			t.Errorf("token %d was acknowledged, and now: %t, %v", i, found, err)
		}
	}
	if len(lines) < 3 {
		t.Errorf("only %d lines: the disk was full too early to show anything", len(lines))
	}
}
