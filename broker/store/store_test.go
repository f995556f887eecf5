package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/clock"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		os.Exit(child(role))
	}
	goleak.VerifyTestMain(m)
}

var testWall = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func testToken(n byte) Token {
	return Token{
		Hash: [32]byte{n, 1}, Session: "s1", Generation: 1, Cycle: 2, Purpose: "promote", Binding: [32]byte{9},
		Anchor: "inode:77", Epoch: "e1", Expires: 100, State: Minted, Wall: testWall,
	}
}

// at is what a caller presents at an instant.
func at(t Token, now clock.Instant) Token {
	t.Expires = now
	return t
}

func newStore(t testing.TB) *Store {
	t.Helper()
	return reopen(t, filepath.Join(t.TempDir(), "guard.db"))
}

func reopen(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
}

func put(t testing.TB, s *Store, tok Token) {
	t.Helper()
	if err := s.PutToken(t.Context(), tok); err != nil {
		t.Fatal(err)
	}
}

func TestTokenLife(t *testing.T) {
	s := newStore(t)
	tok := testToken(1)
	put(t, s, tok)
	got, found, err := s.LookupToken(tok.Hash)
	if err != nil || !found || !reflect.DeepEqual(got, tok) {
		t.Fatalf("LookupToken = %+v, %t, %v", got, found, err)
	}
	got, err = s.ConsumeToken(t.Context(), at(tok, 99))
	if err != nil {
		t.Fatal(err)
	}
	want := tok
	want.State = Consumed
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("consumed token differs (-want +got):\n%s", diff)
	}
	if _, err := s.ConsumeToken(t.Context(), at(tok, 99)); !errors.Is(err, ErrTokenUsed) {
		t.Errorf("second use: %v, want ErrTokenUsed", err)
	}
	if err := s.PutToken(t.Context(), tok); !errors.Is(err, ErrTokenUsed) {
		t.Errorf("storing a used token again: %v, want ErrTokenUsed", err)
	}
}

// Each failed attempt burns the token: a second, right one comes too late.
func TestV1_FailedAttemptBurns(t *testing.T) {
	for name, change := range map[string]func(*Token){
		"session": func(w *Token) { w.Session = "s2" },
		// V2: the token of an older generation or cycle, and the mixed pair.
		"generation": func(w *Token) { w.Generation++ },
		"cycle":      func(w *Token) { w.Cycle++ },
		"purpose":    func(w *Token) { w.Purpose = "renew" },
		"binding":    func(w *Token) { w.Binding = [32]byte{8} },
		"anchor":     func(w *Token) { w.Anchor = "inode:78" },
		"epoch":      func(w *Token) { w.Epoch = "e2" },
		"expired":    func(w *Token) { w.Expires = 100 },
		"nothing":    func(w *Token) { *w = Token{Hash: w.Hash} },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			tok := testToken(1)
			put(t, s, tok)
			want := at(tok, 1)
			change(&want)
			_, err := s.ConsumeToken(t.Context(), want)
			var m *MismatchError
			switch {
			case name == "expired" && !errors.Is(err, ErrTokenExpired):
				t.Errorf("ConsumeToken: %v, want ErrTokenExpired", err)
			case name != "expired" && (!errors.Is(err, ErrTokenMismatch) || !errors.As(err, &m)):
				t.Errorf("ConsumeToken: %v, want ErrTokenMismatch", err)
			case m != nil && name != "nothing" && m.Field != name:
				t.Errorf("mismatch in %q, want %q", m.Field, name)
			}
			if _, err := s.ConsumeToken(t.Context(), at(tok, 1)); !errors.Is(err, ErrTokenUsed) {
				t.Errorf("the right attempt after a wrong one: %v, want ErrTokenUsed", err)
			}
		})
	}
}

func TestV1_OneOf64Wins(t *testing.T) {
	s := newStore(t)
	tok := testToken(1)
	put(t, s, tok)
	errs := make([]error, 64)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = s.ConsumeToken(context.Background(), at(tok, 1)) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, ErrTokenUsed):
			t.Errorf("loser got %v, want ErrTokenUsed", err)
		}
	}
	if won != 1 {
		t.Errorf("%d attempts won, want 1", won)
	}
}

func TestUnknownAndIncompleteTokens(t *testing.T) {
	s := newStore(t)
	if _, err := s.ConsumeToken(t.Context(), testToken(1)); !errors.Is(err, ErrTokenUnknown) {
		t.Errorf("unknown token: %v", err)
	}
	if _, err := s.ConsumeToken(t.Context(), Token{}); !errors.Is(err, ErrTokenUnknown) {
		t.Errorf("zero token: %v", err)
	}
	if err := s.BurnToken(t.Context(), [32]byte{5}); err != nil {
		t.Errorf("burning an unknown token: %v", err)
	}
	for i := range reflect.TypeFor[Token]().NumField() {
		name := reflect.TypeFor[Token]().Field(i).Name
		if name == "State" { // PutToken says it
			continue
		}
		tok := testToken(1)
		reflect.ValueOf(&tok).Elem().Field(i).SetZero()
		if err := s.PutToken(t.Context(), tok); !errors.Is(err, ErrTokenIncomplete) {
			t.Errorf("a token without %s: %v, want ErrTokenIncomplete", name, err)
		}
	}
}

func TestPutTokenNeverStoresConsumed(t *testing.T) {
	s := newStore(t)
	tok := testToken(1)
	tok.State = Consumed
	put(t, s, tok)
	if _, err := s.ConsumeToken(t.Context(), at(tok, 1)); err != nil {
		t.Errorf("PutToken kept the caller's state: %v", err)
	}
}

func TestBurnAndPrune(t *testing.T) {
	s := newStore(t)
	old, young := testToken(1), testToken(2)
	old.Wall = testWall.Add(-25 * time.Hour)
	put(t, s, old)
	put(t, s, young)
	if err := s.BurnToken(t.Context(), young.Hash); err != nil {
		t.Fatal(err)
	}
	if err := s.Prune(t.Context(), testWall.Add(-24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ConsumeToken(t.Context(), at(old, 1)); !errors.Is(err, ErrTokenUnknown) {
		t.Errorf("pruned token: %v, want ErrTokenUnknown", err)
	}
	if _, err := s.ConsumeToken(t.Context(), at(young, 1)); !errors.Is(err, ErrTokenUsed) {
		t.Errorf("burnt token: %v, want ErrTokenUsed", err)
	}
}

func TestSessionsHeadAndKeySurvive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guard.db")
	s := reopen(t, path)
	a := Session{ID: "a", Runtime: "exec", Dir: "/d", Command: "x", BootID: "b", UID: 7, Generation: 3, PID: 4, Inode: 5, StartTime: 6, GateSeen: true, Started: testWall}
	for _, r := range []Session{{ID: "b"}, {ID: "a"}, a, {ID: "c"}} {
		if err := s.PutSession(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.DeleteSessions(t.Context(), []string{"c", "unknown"}), s.DeleteSessions(t.Context(), nil)); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.Head(); ok || err != nil {
		t.Errorf("a new store has a head: %v", err)
	}
	head := audit.Head{Seq: 5, Hash: strings.Repeat("a", 64)}
	if err := s.PutHead(t.Context(), head); err != nil {
		t.Fatal(err)
	}
	if err := s.PutHead(t.Context(), audit.Head{Seq: 4, Hash: head.Hash}); err == nil {
		t.Error("an older head replaced a newer one")
	}
	key := s.Key()
	closeStore(t, s)

	s = reopen(t, path)
	got, err := s.Sessions()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Session{a, {ID: "b"}}, got); diff != "" {
		t.Errorf("sessions differ (-want +got):\n%s", diff)
	}
	if h, ok, err := s.Head(); h != head || !ok || err != nil {
		t.Errorf("Head = %+v, %t, %v", h, ok, err)
	}
	if s.Key() != key || key == [32]byte{} {
		t.Errorf("key %x, before %x", s.Key(), key)
	}
}

func TestClosedAndCancelled(t *testing.T) {
	s := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.PutToken(ctx, testToken(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("write with an ended context: %v", err)
	}
	closeStore(t, s)
	closeStore(t, s)
	if err := s.PutToken(t.Context(), testToken(2)); !errors.Is(err, ErrClosed) {
		t.Errorf("write after Close: %v, want ErrClosed", err)
	}
}
