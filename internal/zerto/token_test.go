package zerto

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/zvmsim"
)

func TestUsableLife(t *testing.T) {
	for life, want := range map[time.Duration]time.Duration{
		time.Hour: 30 * time.Minute, time.Minute: 30 * time.Second, 30 * time.Second: 15 * time.Second,
		20 * time.Second: 5 * time.Second, 15 * time.Second: 3750 * time.Millisecond, time.Second: 250 * time.Millisecond,
	} {
		if got := usable(life); got != want {
			t.Errorf("a token of %v is used for %v, want %v", life, got, want)
		}
	}
}

func TestDecodeToken(t *testing.T) {
	tests := map[string]struct {
		in   string
		life time.Duration // 0: refused
	}{
		"whole":              {`{"access_token":"a.b-c_d==","expires_in":60,"token_type":"Bearer","refresh_token":"r","not-before-policy":0}`, time.Minute},
		"lower-case type":    {`{"access_token":"a","expires_in":60,"token_type":"bearer"}`, time.Minute},
		"centuries":          {`{"access_token":"a","expires_in":9999999999}`, maxLife},
		"no token":           {`{"expires_in":60}`, 0},
		"empty token":        {`{"access_token":"","expires_in":60}`, 0},
		"header injection":   {`{"access_token":"a\r\nX: y","expires_in":60}`, 0},
		"other type":         {`{"access_token":"a","expires_in":60,"token_type":"mac"}`, 0},
		"no life":            {`{"access_token":"a"}`, 0},
		"life of 0":          {`{"access_token":"a","expires_in":0}`, 0},
		"life below 0":       {`{"access_token":"a","expires_in":-60}`, 0},
		"life in quotes":     {`{"access_token":"a","expires_in":"60"}`, 0},
		"two tokens":         {`{"access_token":"a","access_token":"b","expires_in":60}`, 0},
		"two spellings":      {`{"access_token":"a","Access_token":"b","expires_in":60}`, 0},
		"folded":             {`{"ACCESS_TOKEN":"a","expires_in":60}`, 0},
		"too long":           {`{"access_token":"` + strings.Repeat("a", maxToken+1) + `","expires_in":60}`, 0},
		"not an object":      {`"a"`, 0},
		"secret in an error": {`{"access_token":"hunter2","expires_in":"hunter2"}`, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			value, life, err := decodeToken([]byte(tt.in))
			if life != tt.life || (err == nil) != (tt.life != 0) || (value == "") != (err != nil) {
				t.Fatalf("got %q, %v, %v", value, life, err)
			}
			if err != nil && (!errors.Is(err, ErrAnswer) || strings.Contains(err.Error(), "hunter2")) {
				t.Fatalf("error %v", err)
			}
		})
	}
}

func TestBothGrants(t *testing.T) {
	sim, _ := simulate(t, nil)
	user := configFor(sim)
	user.ClientID, user.Secret, user.Username, user.Password = "", "", sim.Info().Username, sim.Info().Password
	for _, cfg := range []Config{configFor(sim), user} {
		c := connect(t, cfg)
		if err := c.Warm(soon(t)); err != nil {
			t.Error(err)
		}
		if _, err := c.Now(soon(t)); err != nil {
			t.Error(err)
		}
	}
	var grants []string
	for _, r := range sim.Requests() {
		if r.Op == zvmsim.OpToken {
			grants = append(grants, r.Grant)
		}
	}
	if got := strings.Join(grants, " "); got != "client_credentials password" {
		t.Errorf("grants %q", got)
	}
}

// A wrong secret must not look like a ZVM that knows no machine, nor be tried
// by every waiting call: that locks the account.
func TestWrongSecret(t *testing.T) {
	for _, status := range []int{0, 400, 403} {
		sim, _ := simulate(t, nil)
		cfg := configFor(sim)
		cfg.Secret = "hunter2"
		// Slow, so that all calls wait for the same attempt.
		a := zvmsim.Answer{Op: zvmsim.OpToken, Status: status, Body: `{"error":"invalid_client"}`, Delay: zvmsim.Span(300 * time.Millisecond)}
		if err := sim.Answer(a); err != nil {
			t.Fatal(err)
		}
		c := connect(t, cfg)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				_, err := c.VMs(soon(t), Query{Name: "app-01"})
				e, ok := errors.AsType[*Error](err)
				if !ok || !e.Unauthorized() || !e.Token || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("status %d: error %v", status, err)
				}
			})
		}
		wg.Wait()
		if n := sim.Count(zvmsim.OpToken); n > 2 {
			t.Errorf("status %d: %d attempts with a wrong secret", status, n)
		}
	}
}

// TestZ2_OneRenewalOn401 has many requests meet an expired token at once.
func TestZ2_OneRenewalOn401(t *testing.T) {
	sim, c := simulate(t, nil)
	if _, err := c.Now(soon(t)); err != nil {
		t.Fatal(err)
	}
	sim.ExpireTokens()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, err := c.Now(soon(t)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := sim.Count(zvmsim.OpToken); n != 2 {
		t.Errorf("%d token requests, want the first and one renewal", n)
	}
}

func TestZ2_SecondRefusalEnds(t *testing.T) {
	sim, c := simulate(t, nil)
	if err := sim.Answer(zvmsim.Answer{Op: zvmsim.OpVMs, Status: 401}); err != nil {
		t.Fatal(err)
	}
	_, err := c.VMs(soon(t), Query{Name: "app-01"})
	if e, ok := errors.AsType[*Error](err); !ok || !e.Unauthorized() || e.Token {
		t.Fatalf("error %#v", err)
	}
	if got := sim.Count(zvmsim.OpVMs); got != 2 {
		t.Errorf("asked %d times, want 2", got)
	}
	if got := sim.Count(zvmsim.OpToken); got != 2 {
		t.Errorf("%d token requests, want 2", got)
	}
}

// fetcher hands out numbered tokens and says when it did.
type fetcher struct {
	life time.Duration
	got  chan struct{}
	err  error
}

func (f *fetcher) fetch(context.Context) (string, time.Duration, error) {
	f.got <- struct{}{}
	return "t", f.life, f.err
}

func TestTokenIsKeptWarm(t *testing.T) {
	f := &fetcher{life: time.Second, got: make(chan struct{}, 100)}
	toks := newTokens(clock.System{}, f.fetch)
	defer toks.close()
	if _, err := toks.get(soon(t)); err != nil {
		t.Fatal(err)
	}
	for range 3 { // the first, and two renewals that nobody asked for
		select {
		case <-f.got:
		case <-soon(t).Done():
			t.Fatal("it is not renewed ahead of time")
		}
	}
}

func TestIdleTokenIsLeftAlone(t *testing.T) {
	clk := clock.NewFake(1, time.Time{})
	f := &fetcher{life: time.Second, got: make(chan struct{}, 100)}
	toks := newTokens(clk, f.fetch)
	defer toks.close()
	if _, err := toks.get(soon(t)); err != nil {
		t.Fatal(err)
	}
	clk.Advance(keepWarm + time.Second)
	toks.work.Wait() // its goroutine ends by itself
	if toks.warming {
		t.Error("it says that it is kept warm")
	}
	if _, err := toks.get(soon(t)); err != nil || len(f.got) < 2 {
		t.Errorf("after %d fetches: %v", len(f.got), err)
	}
}

// A refusal of the old token that comes late doesn't cost the new one.
func TestLateRefusalOfAnOldToken(t *testing.T) {
	f := &fetcher{life: time.Minute, got: make(chan struct{}, 100)}
	toks := newTokens(clock.System{}, f.fetch)
	defer toks.close()
	old, err := toks.get(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	toks.refuse(old)
	renewed, err := toks.get(soon(t))
	if err != nil || renewed.serial == old.serial {
		t.Fatalf("%+v after %+v, %v", renewed, old, err)
	}
	toks.refuse(old)
	if again, err := toks.get(soon(t)); err != nil || again.serial != renewed.serial {
		t.Errorf("%+v after %+v, %v", again, renewed, err)
	}
}

func TestGivingUpOnATokenIsNoFailureOfOthers(t *testing.T) {
	f := &fetcher{life: time.Minute, got: make(chan struct{}, 100), err: errors.New("x")}
	toks := newTokens(clock.System{}, f.fetch)
	defer toks.close()
	began := toks.clk.Now()
	gone, cancel := context.WithCancel(soon(t))
	cancel()
	_, _ = toks.get(gone)
	if err := toks.failedSince(began); err != nil {
		t.Errorf("others get %v", err)
	}
	_, _ = toks.get(soon(t))
	if err := toks.failedSince(began); err == nil {
		t.Error("a real failure isn't shared")
	}
}
