package store

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leaseguard.internal/internal/audit"
)

// Each release leaves the file that it wrote in testdata/releases, made once by
//
//	go test ./broker/store -run TestUpgrade -release v0.2.0
//
// and never changed again: what people have on their disks doesn't change
// either.
var release = flag.String("release", "", "write testdata/releases/NAME.db with this version of the store")

const releases = "testdata/releases"

// What stands in every release's file.
var (
	keptHead    = audit.Head{Seq: 41, Hash: strings.Repeat("5a", 32)}
	keptSession = Session{
		ID: "0123456789abcdef", Runtime: "claude", Dir: "/srv/app", Command: "claude --verbose", BootID: "00000000-0000-4000-8000-000000000000",
		UID: 1000, Generation: 3, PID: 4242, Inode: 77, StartTime: 99, GateSeen: true, Started: testWall, Server: "guard-00112233aabbccdd",
		Alarm: "verdict_ignored", Launched: true,
	}
)

func writeRelease(t *testing.T, path string) {
	t.Helper()
	s := reopen(t, path)
	put(t, s, testToken(1)) // stays minted
	put(t, s, testToken(2))
	if err := s.BurnToken(t.Context(), testToken(2).Hash); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.PutSession(t.Context(), keptSession), s.PutHead(t.Context(), keptHead)); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
}

// TestUpgrade: the file of each past release opens, with all that was in it and
// no token usable that was used; then it can be written, and opens again.
func TestUpgrade(t *testing.T) {
	if *release != "" {
		writeRelease(t, filepath.Join(releases, *release+".db"))
	}
	files, err := filepath.Glob(filepath.Join(releases, "*.db"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no file of any release: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "guard.db")
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			s := reopen(t, path)
			readRelease(t, s)
			key := s.Key()
			if _, err := s.ConsumeToken(t.Context(), at(testToken(1), 1)); err != nil {
				t.Errorf("using the token that was never used: %v", err)
			}
			put(t, s, testToken(3))
			closeStore(t, s)
			checkConsistent(t, path)
			s = reopen(t, path)
			if s.Key() != key || key == [32]byte{} {
				t.Error("the key for inputs changed: digests of the same input no longer agree")
			}
			for n, want := range map[byte]string{1: Consumed, 2: Consumed, 3: Minted} {
				if tok, found, err := s.LookupToken(testToken(n).Hash); !found || err != nil || tok.State != want {
					t.Errorf("token %d after the upgrade: %q, %t, %v; want %s", n, tok.State, found, err, want)
				}
			}
		})
	}
}

func readRelease(t *testing.T, s *Store) {
	t.Helper()
	sessions, err := s.Sessions()
	if diff := cmp.Diff([]Session{keptSession}, sessions); diff != "" || err != nil {
		t.Errorf("sessions: %v\n%s", err, diff)
	}
	if head, ok, err := s.Head(); head != keptHead || !ok || err != nil {
		t.Errorf("audit head: %+v, %t, %v", head, ok, err)
	}
	tok, found, err := s.LookupToken(testToken(1).Hash)
	if diff := cmp.Diff(testToken(1), tok); diff != "" || !found || err != nil {
		t.Errorf("token: %t, %v\n%s", found, err, diff)
	}
	if _, err := s.ConsumeToken(t.Context(), at(testToken(2), 1)); !errors.Is(err, ErrTokenUsed) {
		t.Errorf("using a used token: %v", err)
	}
}
