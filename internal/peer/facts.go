package peer

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/lookup"
	"leaseguard.internal/internal/proc"
)

// PID returns the process's number, for people and as a second factor.
func (p *Process) PID() int {
	if p == nil {
		return 0
	}
	return p.pid
}

// ID returns what tells the process from all others of this boot.
func (p *Process) ID() ID {
	if p == nil {
		return ID{}
	}
	return p.id
}

// Inode returns the pidfs inode, 0 on a kernel without pidfs.
func (p *Process) Inode() uint64 { return p.ID().inode }

// UID returns the effective uid that the process had when it was opened.
func (p *Process) UID() uint32 {
	if p == nil {
		return NoUID
	}
	return p.uid
}

// Alive polls the pidfd. A zombie isn't alive, nor is what can't be polled.
func (p *Process) Alive() bool {
	alive := false
	err := p.withFd(func(fd int) error {
		gone, err := ended(fd)
		alive = !gone
		return err
	})
	return err == nil && alive
}

// Fd returns the pidfd for use in a poll set, -1 after Close. It is the
// caller's business not to use it beyond Close.
func (p *Process) Fd() int {
	fd := -1
	_ = p.withFd(func(n int) error { fd = n; return nil })
	return fd
}

// StartTime returns field 22 of stat, 0 if it can't be read. On the pidfs level
// it is read each time, since only people and the store ask for it.
func (p *Process) StartTime() uint64 {
	if p == nil {
		return 0
	}
	if p.id.start != 0 {
		return p.id.start
	}
	var start uint64
	err := p.withDir(func(d proc.Dir) error {
		st, err := d.Stat()
		start = st.StartTime
		return err
	})
	if err != nil {
		return 0
	}
	return start
}

// OursInNumbers says whether the process is in our own pid namespace, and so
// means the same process by a number as we do. A /proc of another one than ours
// gives no answer.
func (p *Process) OursInNumbers() bool {
	if p == nil {
		return false
	}
	numbers := 0
	err := p.withDir(func(d proc.Dir) error {
		st, err := d.Status()
		numbers = st.Numbers
		return err
	})
	return err == nil && numbers == 1
}

// Exe returns the path of the program that the process runs now; the process
// may change it at any time by exec. " (deleted)" follows if the file is gone.
func (p *Process) Exe() (string, error) { return p.link("exe") }

// Cwd returns the process's working directory, as the kernel gives it: " (deleted)"
// follows when the directory is gone.
func (p *Process) Cwd() (string, error) { return p.link("cwd") }

// ExeFile describes the program file that the process runs now: by it, not by
// the path that Exe gives, two programs are told apart.
func (p *Process) ExeFile() (lookup.File, error) { return p.file("exe") }

// CwdFile describes the process's working directory.
func (p *Process) CwdFile() (lookup.File, error) { return p.file("cwd") }

func (p *Process) file(name string) (f lookup.File, err error) {
	err = p.byNumber(name, func(path string) error {
		f, err = lookup.Link(path)
		return err
	})
	return f, err
}

// link reads a link of /proc/PID.
func (p *Process) link(name string) (target string, err error) {
	err = p.byNumber(name, func(path string) error {
		buf := make([]byte, 256)
		n, err := unix.Readlink(path, buf)
		if n == len(buf) {
			buf = make([]byte, unix.PathMax)
			n, err = unix.Readlink(path, buf)
		}
		if err == nil && n == len(buf) {
			err = unix.ENAMETOOLONG
		}
		target = string(buf[:max(n, 0)])
		return err
	})
	if err != nil {
		return "", err
	}
	return target, nil
}

// byNumber runs read on a name below /proc/PID. That the pidfd still answers for
// a process with the number afterwards says that the number was its own all the
// time: so it need not be held by a directory, which costs thrice as much.
func (p *Process) byNumber(name string, read func(path string) error) error {
	if p == nil {
		return ErrGone
	}
	err := read("/proc/" + strconv.Itoa(p.pid) + "/" + name)
	if goneErr := p.unreaped(); goneErr != nil {
		return goneErr
	}
	switch {
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.ENOENT): // a zombie has neither program nor directory
		return ErrGone
	case err != nil:
		return fmt.Errorf("reading %s of process %d: %w", name, p.pid, err)
	}
	return nil
}
