package hookrun

import (
	"context"
	"errors"
	"os"
	"os/user"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/tree"
	"leaseguard.internal/internal/wire"
)

// Times of a unit's end. With those of tree.End they stay below 3 s.
const (
	grace  = 500 * time.Millisecond // from SIGTERM to the end of all
	linger = 2 * time.Second        // for output, once the hook itself has ended
)

// unit runs one hook, and has no other below it.
type unit struct {
	hook wire.Hook
	line []byte // for its stdin
	path string // PATH
}

// run runs the hook until it and all that it has started have ended.
func (u unit) run(ctx context.Context) wire.HookResult {
	began := now()
	e := u.await(ctx)
	r := judge(u.hook.ID, e)
	r.DurationUS = now().Sub(began).Microseconds()
	return r
}

func (u unit) await(ctx context.Context) ending {
	e := ending{exit: -1}
	p, err := pin(ctx, u.hook)
	if err != nil {
		e.err, e.aborted = err, ctx.Err() != nil
		return e
	}
	defer p.close()
	// The hook dies with the thread that starts it, if that ends unforeseen.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ends, hers, err := pipes()
	if err != nil {
		e.err = err
		return e
	}
	defer ends.close()
	proc, err := os.StartProcess(ownFD(firstFD), p.argv, &os.ProcAttr{
		Dir: "/", Env: environ(u.path), Files: append(hers, p.files...),
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	for _, f := range hers {
		_ = f.Close()
	}
	if err != nil {
		var perr *os.PathError // its path is a descriptor's
		if errors.As(err, &perr) {
			err = perr.Err
		}
		e.err = err
		return e
	}
	u.watch(ctx, proc, ends, &e)
	return e
}

// watch sees a started hook to its end.
func (u unit) watch(ctx context.Context, proc *os.Process, ends *ends, e *ending) {
	out, errOut, written := collect(ends.out), collect(ends.err), u.feed(ends.in)
	done := make(chan *os.ProcessState, 1)
	go func() {
		state, _ := proc.Wait()
		done <- state
	}()
	timeout := time.Duration(u.hook.TimeoutMS) * time.Millisecond
	timed, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var state *os.ProcessState
	select {
	case state = <-done:
		rest := linger
		if state != nil && state.ExitCode() == exitDeny { // whatever comes can't change that
			rest = grace / 5
		}
		wait(timed, rest, out.ended, errOut.ended)
	case <-timed.Done():
		if e.aborted = ctx.Err() != nil; !e.aborted {
			e.late = timeout
		}
		_ = proc.Signal(syscall.SIGTERM)
		state = soon(done)
	}
	e.held = state != nil && (!isClosed(out.ended) || !isClosed(errOut.ended))
	e.aborted = e.aborted || ctx.Err() != nil
	if state == nil || reap() {
		sweep()
	}
	if state == nil { // it was killed with all else, but not a process of root's, nor one whom a file system of the agent's keeps waiting
		state = soon(done)
	}
	reap()
	ends.close()
	<-out.ended
	<-errOut.ended
	<-written
	e.out, e.err2, e.overflow = out.kept, errOut.kept, out.over || errOut.over
	if state == nil {
		return
	}
	e.exit = state.ExitCode()
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		e.signal = unix.SignalName(ws.Signal())
	}
}

// soon waits for the end of a hook that was told to, for a while; nil: it hasn't come.
func soon(done <-chan *os.ProcessState) *os.ProcessState {
	dying, stop := context.WithTimeout(context.Background(), grace)
	defer stop()
	select {
	case state := <-done:
		return state
	case <-dying.Done():
		return nil
	}
}

// sweep ends whatever is below this process.
func sweep() {
	self, err := peer.Self()
	if err != nil {
		return // without /proc nothing could be found
	}
	defer func() { _ = self.Close() }()
	tree.End(context.Background(), tree.Target{Anchor: self})
}

// reap takes the ended from below this process, and says whether somebody is left:
// all that lost its parent is a child of ours. A child that is waited for elsewhere
// must have ended before.
func reap() (left bool) {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if err == nil && pid == 0 {
			return true
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false
		}
	}
}

// environ is all that a hook gets: what its host or its project has set is not
// among it.
func environ(path string) []string {
	env := []string{"PATH=" + path, "LANG=C.UTF-8", "GUARD_HOOK_EXECUTION=1",
		// Node looks a script up by its real name, which a descriptor hasn't.
		"NODE_PRESERVE_SYMLINKS=1", "NODE_PRESERVE_SYMLINKS_MAIN=1"}
	if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil && u.HomeDir != "" {
		env = append(env, "HOME="+u.HomeDir)
	}
	return env
}
