package peer

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/proc"
)

// ID tells processes of one boot apart; it may be a map's key. The zero ID is
// nobody's.
type ID struct {
	inode uint64 // of pidfs; then pid and start stay zero
	pid   int
	start uint64
}

// Same says whether both are the same process. The zero ID isn't even the same
// as itself.
func (id ID) Same(other ID) bool { return id != ID{} && id == other }

// String names the process within this boot, for a store or a record to compare
// and people to read. That of the zero ID is empty.
func (id ID) String() string {
	switch {
	case id == ID{}:
		return ""
	case id.inode != 0:
		return fmt.Sprintf("pidfs:%d", id.inode)
	}
	return fmt.Sprintf("pid:%d@%d", id.pid, id.start)
}

// Process is one process, held by a pidfd: it can end, but never become another
// one. Its methods may be called from several goroutines, also on a nil Process
// and after Close, when it is nobody and not alive.
type Process struct {
	feat features
	id   ID
	pid  int
	ppid int // at open: where Parent looks first
	uid  uint32

	mu sync.RWMutex // held while fd is used, so that Close can't free the number under it
	fd int          // -1 after Close
}

// Open opens the process that has the pid now.
func Open(pid int) (*Process, error) {
	k, err := kernel()
	if err != nil {
		return nil, err
	}
	return open(k, pid)
}

// Self opens the calling process.
func Self() (*Process, error) { return Open(os.Getpid()) }

// Reopen opens the process of which a store remembers pid, pidfs inode and start
// time, all of this boot. It answers ErrGone if that one has ended.
func Reopen(pid int, inode, start uint64) (*Process, error) {
	p, err := Open(pid)
	if err != nil {
		return nil, err
	}
	return p.remembered(inode, start)
}

// remembered returns the process if it is the one that a store remembers, and
// lives; else it closes it.
func (p *Process) remembered(inode, start uint64) (*Process, error) {
	if !p.Alive() || start == 0 || p.Inode() != inode || p.StartTime() != start {
		_ = p.Close()
		return nil, fmt.Errorf("opening process %d again: %w", p.pid, ErrGone)
	}
	return p, nil
}

func open(k features, pid int) (*Process, error) {
	if pid <= 0 {
		return nil, fmt.Errorf("opening process %d: it can't be seen from this pid namespace", pid)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil, fmt.Errorf("opening process %d: %w", pid, ErrGone)
	case err != nil:
		return nil, fmt.Errorf("opening process %d: %w", pid, err)
	}
	return adopt(k, fd, pid)
}

// adopt makes a Process of a pidfd, which it owns from then on, also on error.
func adopt(k features, fd, pid int) (*Process, error) {
	p := &Process{feat: k, fd: fd, pid: pid}
	if err := p.fill(); err != nil {
		_ = p.Close()
		return nil, fmt.Errorf("identifying process %d: %w", pid, err)
	}
	return p, nil
}

// fill reads the facts that are kept.
func (p *Process) fill() error {
	if p.feat.pidfs {
		var st unix.Stat_t
		if err := unix.Fstat(p.fd, &st); err != nil {
			return err
		}
		p.id.inode = st.Ino
	}
	if p.feat.getInfo {
		info, err := getInfo(p.fd)
		switch {
		case errors.Is(err, unix.ESRCH), errors.Is(err, errNoInfo):
			return ErrGone
		case err != nil:
			return err
		case int(info.Tgid) != p.pid:
			return fmt.Errorf("%w: its number is %d by now", ErrGone, info.Tgid)
		}
		p.ppid, p.uid = int(info.Ppid), info.Euid
		if p.feat.pidfs {
			return nil
		}
	}
	return p.fillFromProc()
}

func (p *Process) fillFromProc() error {
	return p.withDir(func(d proc.Dir) error {
		st, err := d.Stat()
		if err != nil {
			return err
		}
		status, err := d.Status()
		if err != nil {
			return err
		}
		p.ppid, p.uid = st.PPID, status.EUID()
		if !p.feat.pidfs {
			p.id = ID{pid: p.pid, start: st.StartTime}
		}
		return nil
	})
}

// withDir runs read on /proc/PID of this very process: after the directory is
// open, the pidfd must still answer for a process that holds the number.
func (p *Process) withDir(read func(proc.Dir) error) error {
	d, err := proc.Open(p.pid)
	if errors.Is(err, unix.ENOENT) {
		return ErrGone
	}
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	if err := p.unreaped(); err != nil {
		return err
	}
	err = read(d)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) {
		return ErrGone
	}
	return err
}

// unreaped answers nil while the process keeps its number: alive, or a zombie.
func (p *Process) unreaped() error {
	return p.withFd(func(fd int) error {
		err := unix.PidfdSendSignal(fd, 0, nil, 0)
		switch {
		case err == nil, errors.Is(err, unix.EPERM): // it is there, and another user's
			return nil
		case errors.Is(err, unix.ESRCH):
			return ErrGone
		}
		return err
	})
}

// withFd lends the pidfd: it stays open until use returns.
func (p *Process) withFd(use func(fd int) error) error {
	if p == nil {
		return ErrGone
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.fd < 0 {
		return fmt.Errorf("using process %d: %w", p.pid, os.ErrClosed)
	}
	return use(p.fd)
}

// Dup opens the same process once more.
func (p *Process) Dup() (*Process, error) {
	var dup *Process
	err := p.withFd(func(fd int) error {
		n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("duplicating the pidfd of process %d: %w", p.pid, err)
		}
		dup = &Process{feat: p.feat, id: p.id, pid: p.pid, ppid: p.ppid, uid: p.uid, fd: n}
		return nil
	})
	return dup, err
}

// Close lets go of the process. Closing twice does nothing.
func (p *Process) Close() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fd < 0 {
		return nil
	}
	fd := p.fd
	p.fd = -1
	return unix.Close(fd)
}
