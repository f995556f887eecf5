package hookrun

import (
	"context"
	"os"
	"time"

	"leaseguard.internal/internal/clock"
)

// ends are ours of a hook's three pipes.
type ends struct{ in, out, err *os.File }

func (e *ends) close() {
	for _, f := range []*os.File{e.in, e.out, e.err} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// pipes makes them, and the hook's own ends in the order of its descriptors.
func pipes() (*ends, []*os.File, error) {
	e, theirs := &ends{}, make([]*os.File, 3)
	var err error
	if theirs[0], e.in, err = os.Pipe(); err == nil {
		if e.out, theirs[1], err = os.Pipe(); err == nil {
			e.err, theirs[2], err = os.Pipe()
		}
	}
	if err != nil {
		e.close()
		(&ends{theirs[0], theirs[1], theirs[2]}).close()
		return nil, nil, err
	}
	return e, theirs, nil
}

// output is what a hook writes to one pipe: the first of it is kept, and all is
// read, so that a hook that writes too much ends as it likes.
type output struct {
	kept  []byte
	over  bool
	ended chan struct{}
}

func collect(f *os.File) *output {
	o := &output{ended: make(chan struct{})}
	go func() {
		defer close(o.ended)
		chunk := make([]byte, 4<<10)
		for {
			n, err := f.Read(chunk)
			take := min(n, MaxOutput-len(o.kept))
			o.kept = append(o.kept, chunk[:take]...)
			o.over = o.over || take < n
			if err != nil {
				return
			}
		}
	}()
	return o
}

// feed writes a hook's line. Whether the hook has read it is its own business: it
// is judged by what it does.
func (u unit) feed(f *os.File) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		_, _ = f.Write(u.line)
		_ = f.Close()
	}()
	return done
}

// wait waits until all have ended, for at most d and while ctx lasts.
func wait(ctx context.Context, d time.Duration, all ...chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for _, c := range all {
		select {
		case <-c:
		case <-ctx.Done():
			return
		}
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// now is for durations.
func now() clock.Instant { return clock.System{}.Now() }
