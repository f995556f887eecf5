package hookrun

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/wire"
)

// Try runs one hook for somebody who wants to see what it does. Whatever has lost
// its parent by the end, below this process, is ended with it.
func Try(ctx context.Context, h wire.Hook, path string, line []byte) (wire.HookResult, error) {
	if err := Subreaper(); err != nil {
		return wire.HookResult{}, err
	}
	return unit{hook: h, line: line, path: path}.run(ctx), nil
}

// runAll runs the hooks of a job, and is over when its time is.
func runAll(ctx context.Context, job wire.HookJob, line []byte) []wire.HookResult {
	total := bounded(job.TotalMS)
	timed, cancel := context.WithTimeout(ctx, total)
	defer cancel()
	var results []wire.HookResult
	if len(job.Hooks) == 1 && (job.Here || onlyRootsNamed(job.Hooks[0])) {
		results = []wire.HookResult{unit{hook: job.Hooks[0], line: line, path: job.Path}.run(timed)}
	} else {
		results = runMany(timed, job, line)
	}
	for i := range results {
		switch r := &results[i]; {
		case r.Status != wire.HookAborted || ctx.Err() != nil:
		case r.Exit == exitDeny: // a denial counts however late it comes
			r.Status, r.Reason = wire.HookDenied, denial(job.Hooks[i].ID, "")
		default:
			r.Status, r.Reason = wire.HookFailed, fmt.Sprintf("all hooks together weren't done within %d ms", total.Milliseconds())
		}
	}
	return results
}

// onlyRootsNamed says whether a hook names nothing but files that only root could
// change. Any other path may lead into a file system that never answers, and who
// waits there can't even be killed: so that is done by a process that can be left.
func onlyRootsNamed(h wire.Hook) bool {
	named := 1
	for _, arg := range h.Args {
		if filepath.IsAbs(arg) {
			named++
		}
	}
	return named == len(h.Files) && !slices.ContainsFunc(h.Files, func(f wire.HookFile) bool { return f.Stamp == "" })
}

// runMany gives each hook a process of its own, which is to it what the broker is
// to us: so each can be ended without the others.
func runMany(ctx context.Context, job wire.HookJob, line []byte) []wire.HookResult {
	results := make([]wire.HookResult, len(job.Hooks))
	slots := make(chan struct{}, concurrent)
	var all sync.WaitGroup
	for i, h := range job.Hooks {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			results[i] = wire.HookResult{Status: wire.HookAborted, Reason: "it was ended with the call", Exit: -1}
			if ctx.Err() != nil {
				return
			}
			r, err := delegate(ctx, wire.HookJob{Hooks: []wire.Hook{h}, Path: job.Path, Here: true}, line)
			switch {
			case err == nil:
				results[i] = r
			case ctx.Err() == nil:
				results[i] = wire.HookResult{Status: wire.HookFailed, Reason: err.Error(), Exit: -1}
			}
		})
	}
	all.Wait()
	if reap() { // a process that ran a hook was killed
		sweep()
		reap()
	}
	return results
}

// slack is what a process that runs one hook has beyond the hook's time.
const slack = 5 * time.Second

// delegate has another process run one hook.
func delegate(ctx context.Context, job wire.HookJob, line []byte) (wire.HookResult, error) {
	proc, conn, err := child()
	if err != nil {
		return wire.HookResult{}, fmt.Errorf("starting what runs one hook: %w", err)
	}
	defer func() {
		_ = conn.Close() // it aborts then, if it hasn't ended
		ended := make(chan struct{})
		go func() { _, _ = proc.Wait(); close(ended) }()
		if wait(context.Background(), slack, ended); !isClosed(ended) {
			_ = proc.Kill()
			wait(context.Background(), grace, ended)
		}
	}()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(clock.Deadline(0)) })()
	job.TotalMS = job.Hooks[0].TimeoutMS + slack.Milliseconds()
	job.AnswerMS = job.TotalMS + slack.Milliseconds()
	_ = conn.SetDeadline(clock.Deadline(bounded(job.AnswerMS)))
	return ask(conn, job, line)
}

// ask plays the broker's part for one hook.
func ask(conn *net.UnixConn, job wire.HookJob, line []byte) (wire.HookResult, error) {
	text, err := json.Marshal(job)
	if err != nil {
		return wire.HookResult{}, err
	}
	if _, err := wire.ReadHooks(conn, wire.KindHooksReady); err != nil {
		return wire.HookResult{}, err
	}
	if err := wire.WriteHookJob(conn, text, line); err != nil {
		return wire.HookResult{}, err
	}
	body, err := wire.ReadHooks(conn, wire.KindHookResults)
	if err != nil {
		return wire.HookResult{}, err
	}
	var r wire.HookResults
	if err := strictjson.Decode(body, &r); err != nil {
		return wire.HookResult{}, err
	}
	if len(r.Results) != 1 {
		return wire.HookResult{}, errors.New("what runs one hook has sent another number of results")
	}
	_, _ = conn.Write(wire.AppendReply(nil, wire.Reply{Kind: wire.KindAnswer}))
	return r.Results[0], nil
}

// child starts this very program once more, with one end of a socketpair in the
// place of the gate's connection.
func child() (*os.Process, *net.UnixConn, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	mine, theirs := os.NewFile(uintptr(pair[0]), "hook"), os.NewFile(uintptr(pair[1]), "hook")
	defer func() { _, _ = mine.Close(), theirs.Close() }()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = null.Close() }()
	conn, err := net.FileConn(mine)
	if err != nil {
		return nil, nil, err
	}
	proc, err := os.StartProcess("/proc/self/exe", []string{"guard", "hooks", "run"}, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: []*os.File{null, null, null, theirs}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return proc, conn.(*net.UnixConn), nil
}
