package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/audit"
)

func record() audit.Record {
	return audit.Record{
		Event: audit.EventVerdict, Session: "0123456789abcdef", Generation: 1, Cycle: 1, State: "VERIFIED", Runtime: "claude",
		CallerPID: 4711, CallerExe: "/usr/local/bin/guard-gate", HostSession: "3f1c9a52-6f0e-4a57-9d0b-7c1f2b8e4d66", ToolUse: "toolu_01",
		HookEvent: "PreToolUse", Tool: "Bash", Class: "mutator", Verdict: "pass", Code: "checkpoint_confirmed", Targets: []string{"app-01"},
	}
}

// auditWriter compares durable records a second of the writer, at 1 and at 64
// callers, with those of one loop that appends as many bytes and syncs.
func auditWriter(dir string, rounds int, out io.Writer) (one, many float64, err error) {
	w, err := audit.Open(audit.Options{Dir: dir})
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = errors.Join(err, w.Close(ctx))
	}()
	raw, line, err := rawFile(w, dir)
	if err != nil {
		return 0, 0, err
	}
	defer raw.Close()
	var ones, manys, loops, ratio1, ratio64 []float64
	for range rounds {
		var rates [3]float64
		for range 6 { // in turn, in slices
			for i, f := range []func() (float64, error){
				func() (float64, error) { return appendAll(w, 1) },
				func() (float64, error) { return appendAll(w, 64) },
				func() (float64, error) { return appendRaw(raw, line) },
			} {
				rate, err := f()
				if err != nil {
					return 0, 0, err
				}
				rates[i] += rate / 6
			}
		}
		ones, manys, loops = append(ones, rates[0]), append(manys, rates[1]), append(loops, rates[2])
		ratio1, ratio64 = append(ratio1, rates[0]/rates[2]), append(ratio64, rates[1]/rates[2])
	}
	one, many = quantile(ratio1, .5), quantile(ratio64, .5)
	fmt.Fprintf(out, "audit alone, records of %d bytes: %.0f/s with 1 writer (%.2f), %.0f/s with 64 (%.1f), against %.0f/s by append and fdatasync\n",
		len(line), quantile(ones, .5), one, quantile(manys, .5), many, quantile(loops, .5))
	return one, many, nil
}

// rawFile makes the file of the loop, and finds out what a record's line is.
func rawFile(w *audit.Writer, dir string) (*os.File, []byte, error) {
	if _, err := w.Append(context.Background(), record()); err != nil {
		return nil, nil, err
	}
	segments, err := filepath.Glob(filepath.Join(dir, "audit-*.jsonl"))
	if err != nil || len(segments) == 0 {
		return nil, nil, errors.Join(errors.New("the writer has no segment"), err)
	}
	text, err := os.ReadFile(segments[0])
	if err != nil {
		return nil, nil, err
	}
	line, _, _ := bytes.Cut(text, []byte{'\n'})
	f, err := os.OpenFile(filepath.Join(dir, "raw"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600) //nolint:gosec // a directory of ours
	return f, append(line, '\n'), err
}

func appendRaw(f *os.File, line []byte) (float64, error) {
	n, began := 0, now()
	for ; now().Sub(began) < sliceTime; n++ {
		if _, err := f.Write(line); err != nil {
			return 0, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return 0, err
		}
	}
	return float64(n) / now().Sub(began).Seconds(), nil
}

func appendAll(w *audit.Writer, writers int) (float64, error) {
	began := now()
	errs, counts := make([]error, writers), make([]int, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for ; now().Sub(began) < sliceTime && errs[i] == nil; counts[i]++ {
				_, errs[i] = w.Append(context.Background(), record())
			}
		})
	}
	wg.Wait()
	n := 0
	for _, c := range counts {
		n += c
	}
	return float64(n) / now().Sub(began).Seconds(), errors.Join(errs...)
}
