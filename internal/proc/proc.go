// Package proc reads the few facts about a process that only /proc has.
//
// A pid is a number that the kernel gives out again. A Dir is an open
// /proc/PID: whatever is read through it is of the one process that had the
// number when it was opened, or fails once that process has been reaped. Who
// must know which process that was compares it with a pidfd (package peer).
//
// Everything here is a process's own doing to some degree: it chooses its name,
// and its program file by exec. Nothing here is an identity.
package proc

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxFile is the most that is read of one file of /proc. stat has below 1,200
// bytes even with every number at its widest, status about 1,500 and a line of
// groups.
const maxFile = 64 << 10

// Dir is an open /proc/PID. The zero Dir reads nothing.
type Dir struct {
	fd  int
	pid int // 0: nothing is open
}

// Open opens /proc/PID.
func Open(pid int) (Dir, error) {
	if pid <= 0 {
		return Dir{}, fmt.Errorf("opening process %d: no such process can be seen from here", pid)
	}
	path := "/proc/" + strconv.Itoa(pid)
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Dir{}, fmt.Errorf("opening %s: %w", path, err)
	}
	return Dir{fd: fd, pid: pid}, nil
}

// Close closes the directory.
func (d Dir) Close() error {
	if d.pid == 0 {
		return nil
	}
	return unix.Close(d.fd)
}

// Stat reads and parses stat.
func (d Dir) Stat() (Stat, error) {
	data, err := d.read("stat")
	if err != nil {
		return Stat{}, err
	}
	st, err := ParseStat(data)
	if err != nil {
		return Stat{}, fmt.Errorf("reading stat of process %d: %w", d.pid, err)
	}
	return st, nil
}

// Status reads and parses status. The owner of /proc/PID would not do for the
// uid: a process that isn't dumpable shows root there.
func (d Dir) Status() (Status, error) {
	data, err := d.read("status")
	if err != nil {
		return Status{}, err
	}
	st, err := ParseStatus(data)
	if err != nil {
		return Status{}, fmt.Errorf("reading status of process %d: %w", d.pid, err)
	}
	return st, nil
}

func (d Dir) open(name string) (fd int, err error) {
	if d.pid == 0 {
		return -1, fmt.Errorf("reading %s: no process is open", name)
	}
	fd, err = unix.Openat(d.fd, name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, fmt.Errorf("opening %s of process %d: %w", name, d.pid, err)
	}
	return fd, nil
}

func (d Dir) read(name string) ([]byte, error) {
	fd, err := d.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	data := make([]byte, 0, 2048)
	for {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := unix.Read(fd, data[len(data):cap(data)])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, fmt.Errorf("reading %s of process %d: %w", name, d.pid, err)
		case n == 0:
			return data, nil
		}
		data = data[:len(data)+n]
		if len(data) > maxFile {
			return nil, fmt.Errorf("reading %s of process %d: more than %d bytes", name, d.pid, maxFile)
		}
	}
}
