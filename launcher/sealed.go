package launcher

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// firstSealed is the lowest descriptor of sealed memory: high enough that the
// number is free, and so the same in a proof and in the session.
const firstSealed = 64

// sealed is text in memory that no process can change or cut any more, with a
// path that leads the runtime to it: /proc/self/fd/N. There is no file that an
// agent could delete, write over or put another one in the place of.
type sealed struct{ fd int }

// seal makes it. The descriptor is close-on-exec until it is handed on.
func seal(name string, text []byte) (s sealed, err error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return sealed{-1}, fmt.Errorf("making memory for %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name) // #nosec G115 -- the kernel gives none below 0
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err = f.Write(text); err != nil {
		return sealed{-1}, fmt.Errorf("writing %s to memory: %w", name, err)
	}
	if _, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE); err != nil {
		return sealed{-1}, fmt.Errorf("sealing %s in memory: %w", name, err)
	}
	s.fd, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, firstSealed)
	if err != nil {
		return sealed{-1}, fmt.Errorf("giving %s a file descriptor of %d or more: %w; raise the limit of open files (ulimit -n)", name, firstSealed, err)
	}
	return s, nil
}

// path leads to the text in the process that inherits it.
func (s sealed) path() string { return "/proc/self/fd/" + strconv.Itoa(s.fd) }

// hand leaves the descriptor to the programs that are executed from now on.
func (s sealed) hand() error {
	if _, err := unix.FcntlInt(uintptr(s.fd), unix.F_SETFD, 0); err != nil { // #nosec G115 -- seal gave it
		return fmt.Errorf("handing on file descriptor %d: %w", s.fd, err)
	}
	return nil
}

func (s sealed) close() {
	if s.fd > 0 {
		_ = unix.Close(s.fd)
	}
}
