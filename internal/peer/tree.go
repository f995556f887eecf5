package peer

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/proc"
)

// ParentPID is the number of the parent that the process had when it was
// opened: a place to look, and no proof of anything.
func (p *Process) ParentPID() int {
	if p == nil {
		return 0
	}
	return p.ppid
}

// ChildOf proves that the process is a child of parent: its parent's number is
// the one of a process that is held and that lives afterwards, so nobody else
// can have had the number when it was read.
func (p *Process) ChildOf(parent *Process) bool {
	if p == nil {
		return false
	}
	ppid, err := p.readPPID()
	return err == nil && ppid != 0 && ppid == parent.PID() && parent.Alive()
}

// ErrUnsupported says that the kernel tells nothing by a pidfd (before Linux 6.13).
var ErrUnsupported = errors.New("the kernel tells nothing by a pidfd, as from Linux 6.13")

// CgroupID returns the id of the cgroup (version 2) that the process is in now.
// It is the inode number of the cgroup's directory.
func (p *Process) CgroupID() (uint64, error) {
	info, err := p.info(unix.PIDFD_INFO_CGROUPID)
	if err != nil {
		return 0, fmt.Errorf("reading the cgroup of process %d: %w", p.PID(), err)
	}
	return info.Cgroupid, nil
}

// EGID returns the effective group that the process has now.
func (p *Process) EGID() (uint32, error) {
	info, err := p.info(unix.PIDFD_INFO_CREDS)
	if err != nil {
		return NoUID, fmt.Errorf("reading the group of process %d: %w", p.PID(), err)
	}
	return info.Egid, nil
}

// info asks for facts of a living process.
func (p *Process) info(want uint64) (unix.PidfdInfo, error) {
	var info unix.PidfdInfo
	err := p.withFd(func(fd int) error {
		if !p.feat.getInfo {
			return ErrUnsupported
		}
		info.Mask = want
		return unix.IoctlPidfdInfo(fd, &info)
	})
	if err == nil && (info.Mask&want != want || !p.Alive()) {
		err = ErrGone
	}
	return info, err
}

// CgroupPath returns the path of the process's cgroup (version 2), from the root
// of that hierarchy: by it the directory is found, of which CgroupID then tells
// whether it is the right one.
func (p *Process) CgroupPath() (string, error) {
	if p == nil {
		return "", ErrGone
	}
	var path string
	err := p.withDir(func(d proc.Dir) (err error) {
		path, err = d.Cgroup()
		return err
	})
	return path, err
}
