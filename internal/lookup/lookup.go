// Package lookup looks at paths and processes of peers without asking a file
// system.
//
// Whoever may mount FUSE, as each user may in a user namespace of his own, can
// have a file system that never answers. Who asks it waits for ever, isn't ended
// by SIGKILL either, and keeps his locks. A path in a payload, a link below
// /proc/PID and the pages of another process's memory, its command line among
// them, all can lead there. So the broker takes what the kernel has in memory, or
// nothing: an error here means that it isn't known, and the caller says what
// follows from that.
package lookup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// File tells a file of this boot from others.
type File struct{ Dev, Ino uint64 }

// Link describes what a link of /proc/PID leads to. It is for such links, and for
// our own files, alone: on the way of another path a file system may be asked.
func Link(path string) (File, error) { return describe(unix.AT_FDCWD, path, 0) }

// Named describes what an absolute path names.
func Named(path string) (File, error) {
	fd, err := open(path)
	if err != nil {
		return File{}, err
	}
	defer func() { _ = unix.Close(fd) }()
	return describe(fd, "", unix.AT_EMPTY_PATH)
}

// Closed says whether an absolute path is known to name a directory of our own
// user's that this user may not enter.
func Closed(path string) bool {
	fd, err := open(path)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Statx_t
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MODE|unix.STATX_UID, &st)
	return err == nil && st.Uid != 0 && int(st.Uid) == os.Geteuid() && st.Mode&unix.S_IXUSR == 0
}

// Resolved returns where an absolute path leads, its links followed.
func Resolved(path string) (string, error) {
	fd, err := open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)) // of the kernel's own
}

// describe takes the attributes that the kernel has, whatever their age: device
// and number of a file don't change.
func describe(at int, path string, flags int) (File, error) {
	var st unix.Statx_t
	flags |= unix.AT_STATX_DONT_SYNC | unix.AT_NO_AUTOMOUNT
	if err := unix.Statx(at, path, flags, unix.STATX_INO, &st); err != nil {
		return File{}, err
	}
	return File{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino}, nil
}

// resolveCached is RESOLVE_CACHED of the kernel's linux/openat2.h.
const resolveCached = 0x20

// open opens a path without opening what is there, if each step of it is in the
// kernel's cache and needs no asking. The links that /proc makes up are followed
// nowhere: they lead out of our own mounts. Before Linux 5.12 there is no such
// look-up, and so no answer.
func open(path string) (int, error) {
	if !filepath.IsAbs(path) {
		return -1, fmt.Errorf("looking up %q: it isn't absolute", path)
	}
	return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: resolveCached | unix.RESOLVE_NO_MAGICLINKS,
	})
}
