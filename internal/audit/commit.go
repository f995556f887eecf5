package audit

import (
	"context"
	"fmt"
	"time"

	"leaseguard.internal/internal/failpoint"
)

// Log's records wait for company, but never longer than flushAfter before they
// are synced. A batch is what one write and one sync serve.
const (
	flushAfter   = 50 * time.Millisecond
	batchRecords = 1024
	batchBytes   = 1 << 20
)

// run is the writing goroutine. It alone touches w.seg.
func (w *Writer) run() {
	defer close(w.ended)
	var flush timer
	defer flush.stop()
	for {
		select {
		case e := <-w.queue:
			w.commit(w.drain(e))
			if w.seg.dirty {
				flush.start(flushAfter)
			}
		case <-flush.due():
			flush.stop()
			_ = w.sync() // a failure stays in Err
		case <-w.quit:
			w.finish()
			return
		}
	}
}

// timer is a deadline that run selects on. The zero timer is never due.
type timer struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// start arms a timer that isn't armed yet.
func (t *timer) start(d time.Duration) {
	if t.ctx == nil {
		t.ctx, t.cancel = context.WithTimeout(context.Background(), d)
	}
}

func (t *timer) due() <-chan struct{} {
	if t.ctx == nil {
		return nil
	}
	return t.ctx.Done()
}

func (t *timer) stop() {
	if t.ctx != nil {
		t.cancel()
		t.ctx = nil
	}
}

// drain takes what is queued behind first, up to the size of a batch.
func (w *Writer) drain(first *entry) []*entry {
	batch, size := []*entry{first}, len(first.body)
	for len(batch) < batchRecords && size < batchBytes {
		select {
		case e := <-w.queue:
			batch, size = append(batch, e), size+len(e.body)
		default:
			return batch
		}
	}
	return batch
}

// commit writes a batch, syncs when somebody waits, and tells those.
func (w *Writer) commit(batch []*entry) {
	heads, err := w.writeBatch(batch)
	waiting := false
	for _, e := range batch {
		waiting = waiting || e.done != nil
	}
	if err == nil && waiting {
		err = w.sync()
	}
	for i, e := range batch {
		switch {
		case e.done == nil && err != nil:
			w.drop()
		case e.done != nil && err != nil:
			e.done <- outcome{err: err}
		default:
			w.told(e.record, heads[i])
			if e.done != nil {
				e.done <- outcome{head: heads[i]}
			}
		}
	}
}

// writeBatch hands the batch to the kernel and returns each record's head.
func (w *Writer) writeBatch(batch []*entry) ([]Head, error) {
	if err := w.Err(); err != nil {
		return nil, err
	}
	if w.seg.size >= w.opt.SegmentSize {
		if err := w.rotate(); err != nil {
			return nil, err
		}
	}
	if n := w.lost.Swap(0); n > 0 {
		if err := w.own(Record{Event: EventBroker, Code: CodeDropped, Count: n,
			Reason: fmt.Sprintf("%d records found the queue full", n)}); err != nil {
			return nil, err
		}
	}
	heads := make([]Head, len(batch))
	for i, e := range batch {
		if e.body != nil {
			heads[i] = w.seg.add(e.body)
		}
	}
	return heads, w.write()
}

// write hands the buffered lines to the kernel.
func (w *Writer) write() error {
	err := failpoint.Hit("audit/before-write")
	if err == nil {
		err = w.seg.write()
	}
	if err != nil {
		return w.fail(err)
	}
	return nil
}

// own writes a record of the writer's itself. It is durable with the next sync.
func (w *Writer) own(r Record) error {
	e, err := w.entry(r)
	if err != nil {
		return w.fail(err)
	}
	at := w.seg.add(e.body)
	if err := w.write(); err != nil {
		return err
	}
	w.told(e.record, at)
	return nil
}

// sync makes all that was written durable and moves the head.
func (w *Writer) sync() error {
	if err := w.Err(); err != nil || !w.seg.dirty {
		return err
	}
	err := failpoint.Hit("audit/before-sync")
	if err == nil {
		err = w.seg.sync()
	}
	if err == nil {
		err = w.seg.inPlace()
	}
	if err == nil {
		err = failpoint.Hit("audit/after-sync")
	}
	if err != nil {
		return w.fail(err)
	}
	w.mu.Lock()
	w.head = Head{Seq: w.seg.seq, Hash: w.seg.prev}
	w.mu.Unlock()
	poke(w.changed)
	return nil
}

// rotate closes the segment, whose records are then durable, and begins the
// next one.
func (w *Writer) rotate() error {
	if err := w.sync(); err != nil {
		return err
	}
	err := failpoint.Hit("audit/before-rotate")
	if err == nil {
		err = w.seg.next(w.opt.Dir)
	}
	if err == nil {
		err = failpoint.Hit("audit/after-rotate")
	}
	if err != nil {
		return w.fail(err)
	}
	w.SaveHead()
	return w.prune()
}

// finish writes the rest and ends keepHead after a last stored head.
func (w *Writer) finish() {
	for len(w.queue) > 0 {
		w.commit(w.drain(<-w.queue))
	}
	_ = w.sync() // a failure stays in Err, which Close returns
	w.stop()
	<-w.headEnded
	w.storeHead()
	if err := w.seg.close(); err != nil {
		_ = w.fail(err)
	}
}
