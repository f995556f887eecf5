package launcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/proc"
)

// endTime bounds the end of a proof's processes: what was killed is gone in
// milliseconds, unless the kernel itself hangs.
const endTime = 5 * time.Second

// endPoll is how often a killed process is looked for.
const endPoll = 2 * time.Millisecond

// endAll kills the client and whatever it started, until nothing is left of it.
// This process is the reaper of orphans, so that what left the client's own
// session comes back as a child. before are children that were there already,
// such as the background jobs of a shell that became guard; their orphans come
// here too. mark stands in the environment that the client was given.
func endAll(cmd *exec.Cmd, waited <-chan struct{}, before map[child]bool, mark string) error {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	select {
	case <-waited: // its pid may be another's by now; what it left behind is ours
	default:
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // ESRCH: it is gone
	}
	select {
	case <-waited:
	case <-ctx.Done():
		return errors.New("the client doesn't end when it is killed")
	}
	for looks := 0; ; looks++ {
		now, err := children()
		if err != nil {
			return err
		}
		left, unsure := 0, 0
		for c := range now {
			if before[c] {
				continue
			}
			if pid, err := unix.Wait4(c.pid, nil, unix.WNOHANG, nil); err == nil && pid == c.pid {
				continue // whosever it was
			}
			is, sure := true, true
			if len(before) > 0 { // else there is nobody whose orphan it could be
				is, sure = c.isOf(cmd.Process.Pid, mark)
			}
			switch {
			case is:
				left++
				_ = unix.Kill(c.pid, unix.SIGKILL)
			case !sure:
				unsure++
			}
		}
		if left == 0 && (unsure == 0 || looks > maxUnsure) {
			return nil
		}
		if clock.Sleep(ctx, endPoll) != nil {
			return fmt.Errorf("%d processes that the client started don't end when they are killed", left)
		}
	}
}

// maxUnsure is how often one is looked at of which nothing can be said: a
// process in the middle of an exec shows no environment.
const maxUnsure = 50

// child is one of our children: a pid by itself could be given out again.
type child struct {
	pid   int
	start uint64
}

// isOf says whether the child is of the client that leads the process session,
// or led it: it is in that session, or bears the client's mark. Where others have
// orphans too, what has neither is taken for theirs. A child keeps its pid until
// it is waited for, which is done here alone.
func (c child) isOf(session int, mark string) (is, sure bool) {
	if sid, err := unix.Getsid(c.pid); err == nil && sid == session {
		return true, true
	}
	f, err := os.Open("/proc/" + strconv.Itoa(c.pid) + "/environ")
	if err != nil {
		return false, true
	}
	defer f.Close()
	env, err := io.ReadAll(io.LimitReader(f, maxEnviron))
	return bytes.Contains(env, []byte(mark)), err == nil && len(env) > 0
}

// maxEnviron is more than the kernel gives a program for arguments and
// environment by default.
const maxEnviron = 8 << 20

// children lists them, zombies included.
func children() (map[child]bool, error) {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	if errors.Is(err, unix.ECHILD) {
		return nil, nil // as nearly always: then /proc needn't be read
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w; is /proc mounted?", err)
	}
	found, self := map[child]bool{}, os.Getpid()
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		d, err := proc.Open(pid)
		if err != nil {
			continue // it has ended
		}
		st, err := d.Stat()
		_ = d.Close()
		if err == nil && st.PPID == self {
			found[child{pid, st.StartTime}] = true
		}
	}
	return found, nil
}
