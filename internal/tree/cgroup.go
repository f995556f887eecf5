package tree

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/peer"
)

// Cgroup is one cgroup of version 2.
type Cgroup struct {
	ID  uint64 // the kernel gives it out once
	Dir string
	// Root says that only root can move processes in and out.
	Root bool
}

// mounts are where systemd mounts cgroup version 2: everywhere, or beside the
// hierarchies of version 1.
var mounts = []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}

// CgroupOf finds the cgroup that the process is in, if it bears that name. Its
// id comes from the process's pidfd, and the directory must have it too.
func CgroupOf(p *peer.Process, name string) (Cgroup, error) {
	fail := func(err error) (Cgroup, error) {
		return Cgroup{}, fmt.Errorf("finding the cgroup %q of process %d: %w", name, p.PID(), err)
	}
	id, err := p.CgroupID()
	if err != nil {
		return fail(err)
	}
	at, err := p.CgroupPath()
	if err != nil {
		return fail(err)
	}
	if path.Base(at) != name {
		return fail(fmt.Errorf("it is in %q", at))
	}
	mount, err := mounted()
	if err != nil {
		return fail(err)
	}
	c := Cgroup{ID: id, Dir: filepath.Join(mount, at)}
	fd, err := c.open()
	if err != nil {
		return fail(err)
	}
	defer func() { _ = unix.Close(fd) }()
	var dir, procs unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &dir), unix.Fstatat(fd, "cgroup.procs", &procs, unix.AT_SYMLINK_NOFOLLOW)); err != nil {
		return fail(err)
	}
	c.Root = dir.Uid == 0 && procs.Uid == 0 && (dir.Mode|procs.Mode)&0o022 == 0
	return c, nil
}

func mounted() (string, error) {
	for _, m := range mounts {
		var fs unix.Statfs_t
		if unix.Statfs(m, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC {
			return m, nil
		}
	}
	return "", errors.New("no cgroup version 2 is mounted below /sys/fs/cgroup")
}

// open opens the directory, if it still is that cgroup.
func (c Cgroup) open() (int, error) {
	fd, err := unix.Open(c.Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Ino != c.ID {
		err = errors.New("the directory is another cgroup's")
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// kill has the kernel kill all that is in the cgroup, at once.
func (c Cgroup) kill() error {
	dir, err := c.open()
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }()
	fd, err := unix.Openat(dir, "cgroup.kill", unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	_, err = unix.Write(fd, []byte("1"))
	return err
}
