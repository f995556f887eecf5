package peer

import (
	"os"
	"strconv"

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

// Exe returns the path of the program that the process runs now; the process
// may change it at any time by exec. " (deleted)" follows if the file is gone.
func (p *Process) Exe() (string, error) {
	if p == nil {
		return "", ErrGone
	}
	var path string
	err := p.withDir(func(d proc.Dir) (err error) {
		path, err = d.Exe()
		return err
	})
	return path, err
}

// Cwd returns the process's working directory, as the kernel gives it: " (deleted)"
// follows when the directory is gone.
func (p *Process) Cwd() (string, error) {
	var cwd string
	err := p.withDir(func(d proc.Dir) (err error) {
		cwd, err = d.Cwd()
		return err
	})
	return cwd, err
}

// ExeFile describes the program file that the process runs now: by it, not by
// the path that Exe gives, two programs are told apart.
func (p *Process) ExeFile() (os.FileInfo, error) {
	if p == nil {
		return nil, ErrGone
	}
	var info os.FileInfo
	err := p.withDir(func(proc.Dir) (err error) {
		// By number, between two looks that the pidfd still holds it.
		info, err = os.Stat("/proc/" + strconv.Itoa(p.pid) + "/exe")
		return err
	})
	if err == nil {
		err = p.unreaped()
	}
	return info, err
}
