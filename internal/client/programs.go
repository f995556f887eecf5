package client

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Programs are the paths of guard's programs, all in one directory.
type Programs struct {
	Guard, Broker, Gate string
}

// Siblings returns the programs beside our own executable. PATH is never
// searched: a program of that name there may be somebody else's.
func Siblings() (Programs, error) {
	exe, err := os.Executable()
	if err != nil {
		return Programs{}, fmt.Errorf("finding our own executable: %w", err)
	}
	dir := filepath.Dir(exe)
	return Programs{
		Guard:  filepath.Join(dir, "guard"),
		Broker: filepath.Join(dir, "guard-broker"),
		Gate:   filepath.Join(dir, "guard-gate"),
	}, nil
}

// CloseOnExec marks every file descriptor but 0 to 2, so that none of them is
// left to the program that this process becomes.
func CloseOnExec() error {
	err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("marking file descriptors close-on-exec: %w", err)
	}
	return closeOnExecOneByOne()
}

// closeOnExecOneByOne does it on kernels before 5.11.
func closeOnExecOneByOne() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("listing file descriptors: %w; is /proc mounted?", err)
	}
	for _, e := range entries {
		var fd int
		if _, err := fmt.Sscanf(e.Name(), "%d", &fd); err != nil || fd < 3 {
			continue
		}
		// EBADF: the descriptor that listed the directory is closed by now.
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil && !errors.Is(err, unix.EBADF) {
			return fmt.Errorf("marking file descriptor %d close-on-exec: %w", fd, err)
		}
	}
	return nil
}
