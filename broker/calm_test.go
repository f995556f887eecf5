package broker

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"leaseguard.internal/internal/clock"
)

func TestLogStaysCalm(t *testing.T) {
	var out bytes.Buffer
	now := clock.Instant(time.Hour)
	log := slog.New(&calmHandler{Handler: slog.NewTextHandler(&out, nil), now: func() clock.Instant { return now }})
	for range 10_000 {
		log.Info("refusing a peer")
	}
	if n := strings.Count(out.String(), "\n"); n != logBurst {
		t.Errorf("%d lines of 10,000 passed, want %d", n, logBurst)
	}
	out.Reset()
	log.Error("a fault of our own")
	now = now.Add(2 * time.Second)
	log.Info("refusing a peer")
	if text := out.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "lines_held_back=9900") {
		t.Errorf("got %q", text)
	}
}
