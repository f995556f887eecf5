package audit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"leaseguard.internal/internal/clock"
)

// ErrClosed is returned by Append after Close.
var ErrClosed = errors.New("audit is closed")

// Options says where and how to write. Dir is required.
type Options struct {
	Dir         string
	Clock       clock.Clock   // nil: the system's
	Epoch       string        // goes into records that have none
	SegmentSize int64         // a new segment from here on; 0: 16 MiB
	Keep        time.Duration // older segments are removed; 0: kept
	Max         int64         // bytes of all segments, oldest removed first; 0: no limit

	// OnHead keeps the head of what is on disk: at each rotation, when
	// SaveHead asks, 10 s after a change, before old segments are removed and at
	// Close. nil: nobody keeps it.
	OnHead func(Head) error
	// Stored is the head as OnHead has kept it, to hold the chain against at
	// start. Is it nil although there is an OnHead, then what was kept is lost.
	Stored *Head
	// Mirror hears of each record that was written, in their order. It must not
	// wait for anything. nil: nobody listens.
	Mirror func(Record)
	// Runs are the epochs of which the last record may be. nil: not known.
	Runs []string
}

const defaultSegment = 16 << 20

// Writer appends records. One goroutine writes for all callers and syncs once
// for all that wait (group commit).
type Writer struct {
	opt    Options
	bootID string
	fault  string // what Open found wrong

	queue   chan *entry
	quit    chan struct{} // closed by Close
	closing sync.Once
	ended   chan struct{} // closed when the writing goroutine is done
	stop    context.CancelFunc

	saveNow, changed chan struct{} // see keepHead
	headEnded        chan struct{}

	headMu     sync.Mutex // one at a time tells OnHead; guards the next three
	savedHead  Head
	headFailed bool
	floor      uint64 // the oldest record that retention has left

	keep, room atomic.Int64 // Options.Keep and Options.Max, or what Retain made of them

	lost atomic.Uint64 // dropped by Log and not yet recorded
	all  atomic.Uint64 // dropped by Log ever

	mu   sync.Mutex // guards the next two
	head Head       // of what is on disk
	err  error      // first failure, for ever

	seg segment // the writing goroutine's own
}

// entry is one record on its way. done is nil for Log, body for Flush.
type entry struct {
	body   []byte
	record *Record // nil: nobody listens
	done   chan outcome
}

type outcome struct {
	head Head
	err  error
}

const queueSize = 4096

// Open continues the chain in o.Dir, or begins one. An unfinished last line,
// which nobody was told of, is cut, and the cut is recorded. When the chain
// doesn't fit o.Stored and o.Runs, an alarm is recorded, and the numbers go on
// after the stored head, so that a gap stays visible.
func Open(o Options) (*Writer, error) {
	if o.Clock == nil {
		o.Clock = clock.System{}
	}
	if o.SegmentSize <= 0 {
		o.SegmentSize = defaultSegment
	}
	bootID, err := clock.BootID()
	if err != nil {
		return nil, err
	}
	w := &Writer{
		opt: o, bootID: bootID,
		queue: make(chan *entry, queueSize), quit: make(chan struct{}), ended: make(chan struct{}),
		saveNow: make(chan struct{}, 1), changed: make(chan struct{}, 1), headEnded: make(chan struct{}),
	}
	w.Retain(o.Keep, o.Max)
	found, err := restore(o)
	if err != nil {
		return nil, err
	}
	w.fault, w.floor = found.fault, found.floor
	w.seg, w.head = found.seg, Head{Seq: found.seg.seq, Hash: found.seg.prev}
	if o.Stored != nil {
		w.savedHead = *o.Stored
	} else if o.OnHead != nil && found.empty {
		_ = o.OnHead(Head{}) // if it isn't kept, the next start says that nothing is known
	}
	if err := w.recordFound(found); err != nil {
		return nil, errors.Join(err, w.seg.close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	go w.run()
	go w.keepHead(ctx)
	return w, nil
}

// recordFound makes the first records of this run: what restore came upon, and
// what retention removes.
func (w *Writer) recordFound(found restored) error {
	for _, r := range found.records {
		if err := w.own(r); err != nil {
			return err
		}
	}
	if err := w.prune(); err != nil {
		return err
	}
	return w.sync()
}

// Append writes a record and returns when it is on disk. When ctx ends first,
// the record may still be written: it then tells of something that was not
// granted, never the other way round.
func (w *Writer) Append(ctx context.Context, r Record) (Head, error) {
	e, err := w.entry(r)
	if err != nil {
		return Head{}, err
	}
	return w.put(ctx, e)
}

// entry makes a record ready to be written.
func (w *Writer) entry(r Record) (*entry, error) {
	r = w.fill(r)
	body, err := encode(r)
	e := &entry{body: body}
	if w.opt.Mirror != nil {
		kept := r
		e.record = &kept
	}
	return e, err
}

// told tells the listener of a record that has been written.
func (w *Writer) told(r *Record, at Head) {
	if r != nil {
		r.Seq = at.Seq
		w.opt.Mirror(*r)
	}
}

// Retain changes how long and in how much room segments are kept, from the next
// rotation on.
func (w *Writer) Retain(keep time.Duration, room int64) {
	w.keep.Store(int64(keep))
	w.room.Store(room)
}

// Flush returns when all that was logged before is on disk.
func (w *Writer) Flush(ctx context.Context) error {
	_, err := w.put(ctx, &entry{})
	return err
}

// put queues an entry and waits for the sync after it.
func (w *Writer) put(ctx context.Context, e *entry) (Head, error) {
	if err := w.Err(); err != nil {
		return Head{}, err
	}
	e.done = make(chan outcome, 1)
	select {
	case w.queue <- e:
	case <-ctx.Done():
		return Head{}, fmt.Errorf("queueing audit record: %w", context.Cause(ctx))
	case <-w.quit:
		return Head{}, ErrClosed
	}
	select {
	case o := <-e.done:
		return o.head, o.err
	case <-ctx.Done():
		return Head{}, fmt.Errorf("waiting for audit record to be on disk: %w", context.Cause(ctx))
	case <-w.ended:
	}
	select { // the last batch may hold it
	case o := <-e.done:
		return o.head, o.err
	default:
		return Head{}, ErrClosed
	}
}

// Log writes a record soon and never blocks: what finds no room is counted.
func (w *Writer) Log(r Record) {
	e, err := w.entry(r)
	if err == nil && w.Err() == nil && !w.closed() {
		select {
		case w.queue <- e:
			return
		default:
		}
	}
	w.drop()
}

// drop counts one record that won't be written.
func (w *Writer) drop() {
	w.lost.Add(1)
	w.all.Add(1)
}

func (w *Writer) closed() bool {
	select {
	case <-w.quit:
		return true
	default:
		return false
	}
}

// fill adds what the writer knows better than its callers.
func (w *Writer) fill(r Record) Record {
	r.Time, r.BootNS = w.opt.Clock.Wall().UTC(), int64(w.opt.Clock.Now())
	if r.BootID == "" {
		r.BootID = w.bootID
	}
	if r.Epoch == "" {
		r.Epoch = w.opt.Epoch
	}
	return r
}

// Head returns the newest record that is on disk.
func (w *Writer) Head() Head {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.head
}

// Fault says in what way the chain didn't fit the stored head at Open; "" when
// it did. The alarm is in the audit already.
func (w *Writer) Fault() string { return w.fault }

// Err returns the failure that ended writing, if one did.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Dropped counts the records of Log that found no room since Open.
func (w *Writer) Dropped() uint64 { return w.all.Load() }

func (w *Writer) fail(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = fmt.Errorf("writing audit in %q: %w; free the disk or repair the directory, then run: guard broker restart", w.opt.Dir, err)
	}
	return w.err
}

// Close writes what is queued, stores the head and ends both goroutines. It
// may be called again, also when ctx ended before they did.
func (w *Writer) Close(ctx context.Context) error {
	w.closing.Do(func() { close(w.quit) })
	for _, end := range []<-chan struct{}{w.ended, w.headEnded} {
		select {
		case <-end:
		case <-ctx.Done():
			return fmt.Errorf("closing audit in %q: %w", w.opt.Dir, context.Cause(ctx))
		}
	}
	return w.Err()
}
