package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// What is compared runs in turn, in slices this long.
const sliceTime = 50 * time.Millisecond

// Slices of each of the two in a round.
var slicesOf = map[int]int{1: 12, 8: 5, 64: 5}

// session starts a broker and the client of a session of it.
func (r *rig) session(parent, kind string, argv ...string) (home, caller, error) {
	h, err := r.newHome(parent)
	if err != nil {
		return h, caller{}, err
	}
	broker, err := r.start(h, nil, append([]string{filepath.Join(r.dir, kind, "guard-broker")}, argv...)...)
	if err != nil {
		return h, caller{}, err
	}
	h.broker = broker.pid
	if err := eventually("the broker to listen", func() error { _, err := os.Stat(h.socket()); return err }); err != nil {
		return h, caller{}, err
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return h, caller{}, err
	}
	anchor, err := r.start(h, writer, filepath.Join(r.dir, kind, "guard-gate"), "-role", "host")
	if err != nil {
		return h, caller{}, err
	}
	_ = writer.Close()
	r.stops = append(r.stops, reader.Close)
	c := caller{in: anchor.stdin, out: bufio.NewReaderSize(reader, 1<<16)}
	return h, c, eventually("a first call", func() error { // its gate has to be heard before a lease can be given
		_, err := c.do(order{Socket: h.socket(), File: r.file(), Clients: 1, ForNS: int64(sliceTime)})
		return err
	})
}

// file is an existing one of a project, as deep as those usually are.
func (r *rig) file() string { return filepath.Join(r.dir, "real", "guard-gate") }

// round runs two kinds of slices in turn.
func round(n int, one, other func() (slice, error)) (a, b slice, err error) {
	for i := range 2 * n {
		to, f := &a, one
		if i%4 == 1 || i%4 == 2 { // who is first changes
			to, f = &b, other
		}
		s, err := f()
		if err != nil {
			return a, b, err
		}
		to.Took, to.ForNS = append(to.Took, s.Took...), to.ForNS+s.ForNS
	}
	return a, b, nil
}

// authorize compares what a read call takes at the broker and at the echo.
func authorize(r *rig, rounds int, out io.Writer) (float64, error) {
	h, c, err := r.session(r.dir, "real")
	if err != nil {
		return 0, err
	}
	other, err := r.newHome(r.dir) // as deep as the broker's
	if err != nil {
		return 0, err
	}
	socket := other.socket()
	server, err := r.start(other, nil, r.self, "-role", "echo", socket)
	if err != nil {
		return 0, err
	}
	if err := eventually("the echo to listen", func() error { _, err := os.Stat(socket); return err }); err != nil {
		return 0, err
	}
	fmt.Fprintf(out, "%-32s %9s %9s %9s   %9s %9s %9s\n", "dial, one read, close", "p50 us", "p99 us", "calls/s", "echo p50", "p99", "calls/s")
	ratio := 0.0
	for _, clients := range []int{1, 8, 64} {
		together := func() error { return nil }
		if clients == 1 {
			if together, err = apart(h.broker, server.pid); err != nil {
				return 0, err
			}
		}
		var broker, echo []slice
		var ratios []float64
		for range rounds {
			ask := func(socket string) func() (slice, error) {
				return func() (slice, error) {
					return c.do(order{Socket: socket, File: r.file(), Clients: clients, ForNS: int64(sliceTime)})
				}
			}
			a, b, err := round(slicesOf[clients], ask(h.socket()), ask(socket))
			if err != nil {
				return 0, err
			}
			broker, echo, ratios = append(broker, a), append(echo, b), append(ratios, a.p(.5)/b.p(.5))
		}
		fmt.Fprintf(out, "%4d client(s), p50 ratio %6.2f %9.0f %9.0f %9.0f   %9.0f %9.0f %9.0f\n", clients, quantile(ratios, .5),
			median(broker, .5), median(broker, .99), rate(broker), median(echo, .5), median(echo, .99), rate(echo))
		if clients == 1 {
			ratio = quantile(ratios, .5)
		}
		if err := together(); err != nil {
			return 0, err
		}
	}
	return ratio, nil
}

// durable compares how many changing calls pass on a disk and in memory.
func durable(r *rig, rounds int, out io.Writer) (float64, error) {
	var asks [2]func() (slice, error)
	for i, parent := range []string{r.dir, r.memory} {
		h, c, err := r.session(parent, "stub", "-role", "broker")
		if err != nil {
			return 0, err
		}
		if err := approve(h); err != nil {
			return 0, err
		}
		asks[i] = func() (slice, error) {
			return c.do(order{Socket: h.socket(), Clients: 64, ForNS: int64(sliceTime), Changes: true})
		}
	}
	var disk, memory []slice
	var ratios []float64
	for range rounds {
		a, b, err := round(10, asks[0], asks[1])
		if err != nil {
			return 0, err
		}
		disk, memory, ratios = append(disk, a), append(memory, b), append(ratios, a.rate()/b.rate())
	}
	fmt.Fprintf(out, "64 clients, changing calls, ratio of rates %.2f: %.0f passes/s with records on disk, %.0f in memory\n", quantile(ratios, .5), rate(disk), rate(memory))
	return quantile(ratios, .5), nil
}

// p is a quantile of the calls, in microseconds.
func (s slice) p(q float64) float64 { return float64(quantile(s.Took, q)) / 1e3 }

// rate is calls a second.
func (s slice) rate() float64 { return float64(len(s.Took)) / time.Duration(s.ForNS).Seconds() }

func median(rounds []slice, q float64) float64 {
	var ps []float64
	for _, s := range rounds {
		ps = append(ps, s.p(q))
	}
	return quantile(ps, .5)
}

func rate(rounds []slice) float64 {
	var rs []float64
	for _, s := range rounds {
		rs = append(rs, s.rate())
	}
	return quantile(rs, .5)
}

// quantile returns the value below which a share q of them lies.
func quantile[T cmp.Ordered](values []T, q float64) T {
	values = slices.Sorted(slices.Values(values))
	return values[min(int(q*float64(len(values))), len(values)-1)]
}
