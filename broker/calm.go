package broker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"leaseguard.internal/internal/clock"
)

// calmHandler passes a burst of log lines and then one a second: peers bring most
// of them about, and must not fill the disk with them. What was held back is
// said with the next line that passes.
type calmHandler struct {
	slog.Handler
	now func() clock.Instant

	mu   sync.Mutex
	left float64
	at   clock.Instant
	held int
}

const (
	logBurst     = 100
	logPerSecond = 1
)

// Handle passes r, or counts it.
func (h *calmHandler) Handle(ctx context.Context, r slog.Record) error {
	held, pass := h.admit(r.Level)
	if !pass {
		return nil
	}
	if held > 0 {
		r.AddAttrs(slog.Int("lines_held_back", held))
	}
	return h.Handler.Handle(ctx, r)
}

// admit takes a line's place in the budget. Errors always pass: they are faults
// of our own.
func (h *calmHandler) admit(level slog.Level) (held int, pass bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	if h.at == 0 {
		h.left = logBurst
	} else {
		h.left = min(logBurst, h.left+float64(now.Sub(h.at))/float64(time.Second)*logPerSecond)
	}
	h.at = now
	if h.left < 1 && level < slog.LevelError {
		h.held++
		return 0, false
	}
	h.left--
	held, h.held = h.held, 0
	return held, true
}
