package audit

import (
	"context"
	"fmt"
	"time"

	"leaseguard.internal/internal/failpoint"
)

// Head names the newest record of a chain. The zero Head is that of an empty
// chain. First is known to who keeps the head: the oldest record that retention
// has left, 0 when nobody has said so.
type Head struct {
	Seq   uint64 `json:"seq"`
	Hash  string `json:"hash"`
	First uint64 `json:"first,omitzero"`
}

// headEvery is how old a stored head may get while records come in.
const headEvery = 10 * time.Second

// SaveHead asks for the head to be stored soon, without waiting for it.
func (w *Writer) SaveHead() { poke(w.saveNow) }

// poke leaves a signal that is seen even when nobody waits right now.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// keepHead stores the head when asked and headEvery after a change. It has a
// goroutine of its own, so that a slow store doesn't hold up the audit.
func (w *Writer) keepHead(ctx context.Context) {
	defer close(w.headEnded)
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.saveNow:
		case <-w.changed:
			wait, cancel := context.WithTimeout(ctx, headEvery)
			select {
			case <-wait.Done():
			case <-w.saveNow:
			}
			cancel()
		}
		w.storeHead()
	}
}

// storeHead hands the newest durable head to OnHead, once.
func (w *Writer) storeHead() {
	w.headMu.Lock()
	defer w.headMu.Unlock()
	h := w.Head()
	h.First = w.floor
	if w.opt.OnHead == nil || h == w.savedHead || h.Seq == 0 {
		return
	}
	w.putHead(h)
}

// keepFrom tells who keeps the head that no record before first is kept any
// more, and says whether it is known now.
func (w *Writer) keepFrom(first uint64) bool {
	w.headMu.Lock()
	defer w.headMu.Unlock()
	h := w.Head()
	h.First = first
	if w.opt.OnHead != nil && !w.putHead(h) {
		return false
	}
	w.floor = first
	return true
}

// putHead needs headMu. A failure makes one record, not one every ten seconds.
func (w *Writer) putHead(h Head) bool {
	err := failpoint.Hit("audit/before-head")
	if err == nil {
		err = w.opt.OnHead(h)
	}
	if err == nil {
		w.savedHead, w.headFailed = h, false
		return true
	}
	if !w.headFailed {
		w.headFailed = true
		w.Log(Record{Event: EventBroker, Code: CodeHeadError,
			Reason: fmt.Sprintf("storing audit head %d: %v", h.Seq, err)})
	}
	return false
}
