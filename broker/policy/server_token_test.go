package policy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/policysim"
)

// script is a program of this user's in a directory of its own.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mint")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTokenCommand: one line is a token; all else is none, and says why.
func TestTokenCommand(t *testing.T) {
	t.Setenv("SECRET_OF_THE_ENVIRONMENT", "x")
	for name, tt := range map[string]struct{ text, want, fault string }{
		"a token":       {"echo token-1", "token-1", ""},
		"no line end":   {"printf token-1", "token-1", ""},
		"nothing":       {"true", "", "no token"},
		"two lines":     {"echo a; echo b", "", "no token"},
		"blanks":        {"echo a b", "", "no token"},
		"too long":      {"yes | head -c 9000 | tr -d '\\n'", "", "more than 4096"},
		"fails":         {"echo 'no login: run it' >&2; exit 3", "", "no login: run it"},
		"environment":   {"env | grep -c SECRET >/dev/null && echo leaked || echo clean", "clean", ""},
		"left behind":   {"sleep 100 & echo token-1", "", "WaitDelay"},
		"another group": {"setsid sleep 3 >/dev/null 2>&1 & echo token-1", "token-1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := runToken(context.Background(), []string{script(t, tt.text)}, uint32(os.Getuid()))
			if got != tt.want || (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%q, %v; want %q, %q", got, err, tt.want, tt.fault)
			}
		})
	}
	t.Run("hangs", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if _, err := runToken(ctx, []string{script(t, "sleep 100")}, uint32(os.Getuid())); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
	t.Run("others may write it", func(t *testing.T) {
		path := script(t, "echo token-1")
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
		if got, err := runToken(context.Background(), []string{path}, uint32(os.Getuid())); err == nil {
			t.Errorf("%q", got)
		}
	})
}

// TestOneLapseOneToken: however many evaluations a lapse strikes, one new token is
// fetched, and a failure is shared by those that waited for it.
func TestOneLapseOneToken(t *testing.T) {
	for _, fails := range []bool{false, true} {
		var minted atomic.Int32
		tok := &tokens{clock: clock.System{}, turn: make(chan token, 1)}
		tok.turn <- token{"stale", 1}
		hold := make(chan struct{})
		tok.mint = func(context.Context) (string, error) {
			<-hold
			minted.Add(1)
			if fails {
				return "", errors.New("no login")
			}
			return "fresh", nil
		}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				got, err := tok.renew(context.Background(), token{"stale", 1})
				if (err != nil) != fails || !fails && got.value != "fresh" {
					t.Errorf("%+v, %v", got, err)
				}
			})
		}
		time.Sleep(10 * time.Millisecond) // so that they wait; if not, the test only shows less
		close(hold)
		all.Wait()
		if n := minted.Load(); n > 3 || !fails && n != 1 {
			t.Errorf("%d tokens were fetched", n)
		}
	}
}

// TestTokenCommandFailsLater: the reason of a failed re-login is in the denial.
func TestTokenCommandFailsLater(t *testing.T) {
	once := script(t, "[ -e \"$0.done\" ] && { echo 'the login is over' >&2; exit 1; }; touch \"$0.done\"; echo token-1")
	sim := &policysim.Server{Token: "token-2"}
	if err := sim.Start(); err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	cfg := config.PolicyServer{URL: sim.URL(), TokenCommand: []string{once}, ConnectTimeout: time.Second, Budget: 5 * time.Second}
	e, err := NewEvaluator(cfg, uint32(os.Getuid()), clock.System{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	o := e.Judge(context.Background(), bash)
	if !o.Denied || !strings.Contains(o.Cause, "401") || !strings.Contains(o.Cause, "the login is over") || strings.Contains(o.Cause, "token-1") {
		t.Errorf("%+v", o)
	}
	if _, err := NewEvaluator(config.PolicyServer{URL: sim.URL(), TokenFile: filepath.Join(t.TempDir(), "none")}, 0, clock.System{}, nil); err == nil {
		t.Error("a token's file that isn't there is taken")
	}
}
