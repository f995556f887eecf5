package checkpoint

import (
	"context"

	"leaseguard.internal/internal/clock"
)

// poll starts a read of the list at every step and a look at the task now and
// then, until pacing ends. It doesn't wait for their answers: the next step
// comes on time even when the ZVM is slow, until too many are under way. What
// is under way when the watch ends may finish: to cut it off would cost its
// connection.
func (w *watch) poll(ctx, pacing context.Context) {
	p := w.s.pace
	reads, looks := make(chan struct{}, p.reads), make(chan struct{}, 1)
	fastUntil := w.s.clk.Now().Add(p.fastFor)
	var task string
	var look clock.Instant // when the task is looked at next
	for {
		step := p.fast
		if w.s.clk.Now() >= fastUntil {
			step = p.slow
		}
		if clock.Sleep(pacing, step) != nil {
			return
		}
		now := w.s.clk.Now()
		select {
		case task = <-w.accepted:
			fastUntil, look = now.Add(p.fastFor), now.Add(p.task)
		default:
		}
		w.request(reads, func() event {
			list, err := w.s.zvm.Checkpoints(ctx, w.in.group.id, w.floor.Add(-margin))
			return event{kind: listed, list: list, err: err}
		})
		if task != "" && now >= look {
			look = now.Add(p.task)
			w.request(looks, func() event {
				state, err := w.s.zvm.Task(ctx, task)
				return event{kind: looked, state: state, err: err}
			})
		}
		w.report(event{kind: ticked})
	}
}

// request reports the outcome of f, unless as many are under way as slots has
// room for.
func (w *watch) request(slots chan struct{}, f func() event) {
	select {
	case slots <- struct{}{}:
	default:
		return
	}
	w.in.requests.Go(func() {
		e := f()
		<-slots
		w.report(e)
	})
}
