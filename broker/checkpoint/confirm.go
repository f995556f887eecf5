package checkpoint

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/zerto"
)

// pace is how an insert is watched. Tests have their own.
type pace struct {
	fast, slow time.Duration // between two reads of the list
	fastFor    time.Duration // from the answer to the insert
	task       time.Duration // between two looks at the task
	grace      time.Duration // for a tag that should be there: the task has ended, or the insert's answer was lost
	reads      int           // of the list at once
}

var defaultPace = pace{
	fast: 100 * time.Millisecond, fastFor: 5 * time.Second, slow: 500 * time.Millisecond,
	task: 500 * time.Millisecond, grace: 15 * time.Second, reads: 16,
}

// margin is how far before its time a checkpoint is listed from.
const margin = time.Minute

// watch is the state of one insert from its sending to its end. One goroutine
// owns it; requests report to it by events.
type watch struct {
	s      *Service
	in     *insert
	floor  time.Time // ZVM time before which no checkpoint can be ours, in whole seconds
	events chan event
	gone   chan struct{} // closed at the end, when nobody takes events any more

	accepted chan string   // the task's name, for the pacer
	lapse    clock.Instant // end of the grace, 0 for none
	why      *Refusal      // what it is refused with then
	near     string        // what was seen of the tag that doesn't count
	trouble  string        // why the latest read of the list failed
}

// event is the outcome of one request, or none: a tick.
type event struct {
	kind  eventKind
	task  string
	state zerto.Task
	list  []zerto.Checkpoint
	err   error
}

type eventKind uint8

const (
	ticked eventKind = iota
	posted
	listed
	looked // at the task
)

// confirm inserts a checkpoint and watches until its tag is read back, it has
// certainly failed, or ctx ends.
func (s *Service) confirm(ctx context.Context, in *insert) (zerto.Checkpoint, *Refusal) {
	now, err := s.zvm.Now(ctx)
	if err != nil {
		return zerto.Checkpoint{}, fromError(ctx, in.group.object(), err)
	}
	if !s.wanted(in) {
		return zerto.Checkpoint{}, in.group.failed("nobody waits for it any more", nextRepeat)
	}
	w := &watch{
		s: s, in: in, floor: now.Truncate(time.Second),
		events: make(chan event), gone: make(chan struct{}), accepted: make(chan string, 1),
	}
	defer close(w.gone)
	pacing, stop := context.WithCancel(ctx)
	defer stop()
	in.requests.Go(func() {
		task, err := s.zvm.InsertCheckpoint(ctx, in.group.id, in.tag)
		w.report(event{kind: posted, task: task, err: err})
	})
	in.requests.Go(func() { w.poll(ctx, pacing) })
	for {
		select {
		case e := <-w.events:
			cp, refusal := w.take(ctx, e)
			if cp.ID != "" || refusal != nil {
				return cp, refusal
			}
		case <-ctx.Done():
			return zerto.Checkpoint{}, ended(ctx, in.group.object(), "tag "+verdict.Object(in.tag)+" didn't appear in time"+w.near+w.trouble)
		}
	}
}

func (w *watch) report(e event) {
	select {
	case w.events <- e:
	case <-w.gone:
	}
}

// take is one step: a checkpoint or a refusal ends the watch.
func (w *watch) take(ctx context.Context, e event) (zerto.Checkpoint, *Refusal) {
	var refusal *Refusal
	switch e.kind {
	case posted:
		refusal = w.takePosted(ctx, e)
	case listed:
		if cp, ok := w.find(e.list); ok {
			return cp, nil
		}
		refusal = w.takeListError(ctx, e.err)
	case looked:
		refusal = w.takeTask(e)
	case ticked:
	}
	if refusal == nil && w.lapse != 0 && w.s.clk.Now() >= w.lapse {
		refusal = w.why
		refusal.Cause += w.near + w.trouble
	}
	return zerto.Checkpoint{}, refusal
}

// takePosted ends the watch if the insert was certainly not executed. If that
// is open, the tag has the grace to appear.
func (w *watch) takePosted(ctx context.Context, e event) *Refusal {
	if e.err == nil {
		w.accepted <- e.task // has room: it is posted once
		return nil
	}
	refusal := fromError(ctx, w.in.group.object(), e.err)
	failed, ok := errors.AsType[*zerto.Error](e.err)
	if !ok || !failed.Unknown {
		return refusal
	}
	w.accepted <- "" // nothing to look at, but the pace counts from here
	w.expire(refusal)
	return nil
}

// takeListError ends the watch when no later read can succeed.
func (w *watch) takeListError(ctx context.Context, err error) *Refusal {
	w.trouble = ""
	if err == nil {
		return nil
	}
	w.trouble = "; the latest read failed: " + err.Error()
	failed, ok := errors.AsType[*zerto.Error](err)
	final := !ok || failed.Unauthorized() || failed.Status >= 400 && failed.Status < 500 && !failed.Temporary()
	if final || errors.Is(err, zerto.ErrUntrusted) {
		return fromError(ctx, w.in.group.object(), err)
	}
	return nil
}

// takeTask hears of failure early. Success is only a reason to expect the tag,
// and so is a task that is gone; what can't be read says nothing.
func (w *watch) takeTask(e event) *Refusal {
	g := w.in.group
	if failed, ok := errors.AsType[*zerto.Error](e.err); ok && failed.Status == http.StatusNotFound {
		w.expire(g.failed("the ZVM no longer knows the task of tag "+verdict.Object(w.in.tag)+", and the tag didn't appear", nextRepeat))
	}
	switch e.state.State.Name {
	case "Failed", "Stopped", "Cancelling":
		return g.failed("the ZVM's task ended as "+e.state.State.Name+": "+verdict.Object(e.state.Reason), nextRepeat)
	case "Completed":
		w.expire(g.failed("the ZVM reports its task as completed, but tag "+verdict.Object(w.in.tag)+" didn't appear", nextRepeat))
	}
	return nil
}

// expire begins the grace, unless it runs already.
func (w *watch) expire(why *Refusal) {
	if w.lapse == 0 {
		w.lapse, w.why = w.s.clk.Now().Add(w.s.pace.grace), why
	}
}

// find returns our checkpoint: exactly our tag, in our VPG, not before the
// insert. Of several it is the latest.
func (w *watch) find(list []zerto.Checkpoint) (best zerto.Checkpoint, ok bool) {
	for _, cp := range list {
		switch {
		case cp.Tag != w.in.tag:
			if strings.EqualFold(strings.TrimSpace(cp.Tag), w.in.tag) {
				w.near = "; the list has " + verdict.Object(cp.Tag) + ", which isn't it"
			}
		case cp.VPGID != "" && cp.VPGID != w.in.group.id:
			w.near = "; the list has it for VPG " + verdict.Object(cp.VPGID)
		case cp.Time.Before(w.floor):
			w.near = "; the list has it at a time before the request"
		case !ok || best.Time.Before(cp.Time):
			best, ok = cp, true
		}
	}
	return best, ok
}
