package peer

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Level is how well this kernel lets processes be told apart.
type Level string

// The levels, the better one first.
const (
	LevelPIDFS Level = "pidfs" // SO_PEERPIDFD and pidfs inodes
	LevelPIDFD Level = "pidfd" // pidfd_open, start time read again
)

// Detect names the level of the running kernel. An error means that the kernel
// has no pidfds, or that a sandbox keeps them away: nothing may run then.
func Detect() (Level, error) {
	k, err := kernel()
	return k.level(), err
}

// features is what a kernel can do. Each process, listener and connection
// carries the features that it was opened with, so that a test can switch some
// off.
type features struct {
	peerPidfd  bool // SO_PEERPIDFD (6.5)
	pidfs      bool // inodes of pidfds are unique (6.9)
	getInfo    bool // PIDFD_GET_INFO (6.13)
	passRights bool // SO_PASSRIGHTS (6.16)
}

func (f features) level() Level {
	if f.peerPidfd && f.pidfs {
		return LevelPIDFS
	}
	return LevelPIDFD
}

// kernel probes once.
var kernel = sync.OnceValues(probe)

func probe() (features, error) {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return features{}, fmt.Errorf("opening a pidfd: %w; leaseguard needs Linux 5.3 or newer and a sandbox that lets pidfd_open through", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if gone, err := ended(fd); err != nil {
		return features{}, fmt.Errorf("polling a pidfd: %w; leaseguard needs Linux 5.3 or newer", err)
	} else if gone {
		return features{}, errors.New("polling a pidfd: this process counts as ended; leaseguard needs Linux 5.3 or newer")
	}
	var f features
	// A 32-bit kernel's inodes wrap around.
	var fs unix.Statfs_t
	f.pidfs = strconv.IntSize == 64 && unix.Fstatfs(fd, &fs) == nil && fs.Type == unix.PID_FS_MAGIC
	info, err := getInfo(fd)
	f.getInfo = err == nil && int(info.Tgid) == os.Getpid()
	if err := probeSocket(&f); err != nil {
		return features{}, err
	}
	return f, nil
}

func probeSocket(f *features) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("making a socket pair: %w", err)
	}
	defer func() { _, _ = unix.Close(pair[0]), unix.Close(pair[1]) }()
	if pidfd, err := unix.GetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_PEERPIDFD); err == nil {
		_ = unix.Close(pidfd)
		f.peerPidfd = true
	}
	f.passRights = unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_PASSRIGHTS, 0) == nil
	return nil
}

// ended polls a pidfd: readable means that the process has ended, reaped or not.
func ended(fd int) (bool, error) {
	events, err := poll(fd, unix.POLLIN)
	return events != 0, err
}

// poll asks for the state of a descriptor without waiting.
func poll(fd int, want int16) (events int16, err error) {
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: want}} //nolint:gosec // the kernel's descriptors are that small
	for {
		_, err := unix.Poll(fds[:], 0)
		if err != unix.EINTR {
			return fds[0].Revents, err
		}
	}
}

// errNoInfo: the kernel answered without what was asked for, as it does for a
// process that has been reaped.
var errNoInfo = errors.New("no information")

// getInfo asks for pid, parent and credentials. Success of the call alone means
// nothing: the mask says which of it was filled in.
func getInfo(fd int) (unix.PidfdInfo, error) {
	const want = unix.PIDFD_INFO_PID | unix.PIDFD_INFO_CREDS
	info := unix.PidfdInfo{Mask: want}
	if err := unix.IoctlPidfdInfo(fd, &info); err != nil {
		return unix.PidfdInfo{}, err
	}
	if info.Mask&want != want || info.Tgid == 0 {
		return unix.PidfdInfo{}, errNoInfo
	}
	return info, nil
}
