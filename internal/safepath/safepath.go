// Package safepath says whether a path can be trusted: whether nobody but root
// and one user could have put there what is there.
//
// The same test holds for configuration, state, sockets and programs:
//
//   - every directory on the way is owned by root or the user, and writable by
//     nobody else
//   - a world-writable directory is good only if it is root's and sticky, and
//     what comes next is a directory (no link) of root or the user
//   - the last directory has mode 0700 or 0755; the audit's alone has 2750, for
//     the one group that may read it
//   - a file is regular, no link, owned by root or the user, and writable by
//     nobody else
//
// A link to a directory is followed where only root or the user could have made
// it, and the way that it leads is tested like any other.
//
// The walk goes from the root downwards and looks at each name by itself, in a
// directory that has passed already. So nobody else can change what was seen.
// What it doesn't protect from: root, and the user.
package safepath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrUnsafe is wrapped by every refusal of a path for its owner, mode or type.
// A path that isn't there gives fs.ErrNotExist instead.
var ErrUnsafe = errors.New("unsafe path")

// maxLinks is how many links one path may lead through, as in the kernel.
const maxLinks = 40

// othersWrite are the mode bits that let group or others write. With an access
// control list the group's bits show the most that any of its entries grants.
const othersWrite = 0o022

// Dir tests a directory that only uid and root may change.
func Dir(path string, uid uint32) error {
	_, err := dir(path, uid)
	return wrap(path, err)
}

// File tests a regular file that only uid and root may change.
func File(path string, uid uint32) error {
	resolved, err := locate(path, uid, dir)
	if err != nil {
		return wrap(path, err)
	}
	info, err := os.Lstat(resolved)
	if err != nil {
		return wrap(path, err)
	}
	return wrap(path, checkFile(resolved, info, uid))
}

// wrap says which path was tested.
func wrap(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("checking path %q: %w", path, err)
}

// locate tests by enter the directory that a file is in, and returns the file's
// path without links in it.
func locate(path string, uid uint32, enter func(string, uint32) (*walk, error)) (string, error) {
	name := filepath.Base(path)
	if name == "/" || name == "." || name == ".." || strings.HasSuffix(path, "/") {
		return "", fmt.Errorf("%w: it names no file", ErrUnsafe)
	}
	w, err := enter(filepath.Dir(path), uid)
	if err != nil {
		return "", err
	}
	return filepath.Join(w.path(), name), nil
}

// GroupDir tests a directory that only uid and root may change and only the
// group gid may read beside them: its mode is 2750 exactly, so that what is made
// in it belongs to that group.
func GroupDir(path string, uid, gid uint32) error {
	w, err := reach(path, uid)
	if err != nil {
		return wrap(path, err)
	}
	last := w.stack[len(w.stack)-1]
	const want = fs.ModeDir | fs.ModeSetgid | 0o750
	if last.info.Mode() != want || group(last.info) != gid {
		return wrap(path, refuse(last.path, last.info, "want group %d and mode 2750; run: chgrp %d %q, then: chmod 2750 %q", gid, gid, last.path, last.path))
	}
	return nil
}

// reach walks to a directory, whose own mode is still to be tested.
func reach(path string, uid uint32) (*walk, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("%w: it is relative; give it from / on", ErrUnsafe)
	}
	w := &walk{uid: uid}
	if err := w.enter("/"); err != nil {
		return nil, err
	}
	return w, w.follow(path)
}

// dir walks to a directory and tests its own mode too.
func dir(path string, uid uint32) (*walk, error) {
	w, err := reach(path, uid)
	if err != nil {
		return nil, err
	}
	last := w.stack[len(w.stack)-1]
	if perm := last.info.Mode().Perm(); perm != 0o700 && perm != 0o755 {
		return nil, refuse(last.path, last.info, "want mode 0700 or 0755; run: chmod %s %q", closest(perm), last.path)
	}
	return w, nil
}

// closest is the allowed mode that changes least.
func closest(perm fs.FileMode) string {
	if perm&0o055 == 0o055 {
		return "0755"
	}
	return "0700"
}

// checkFile tests a file's own type, owner and mode.
func checkFile(path string, info fs.FileInfo, uid uint32) error {
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		return refuse(path, info, "want a regular file, not a link; put the file itself there, or give the path that the link leads to")
	case !mode.IsRegular():
		return refuse(path, info, "want a regular file; put one there")
	case !owned(info, uid):
		return foreign(path, info, uid)
	case mode.Perm()&othersWrite != 0:
		return refuse(path, info, "others may write it; run: chmod go-w %q", path)
	}
	return nil
}

func owner(info fs.FileInfo) uint32 {
	// Linux alone is supported, where this is what Sys holds. Anything else
	// panics, which denies.
	return info.Sys().(*syscall.Stat_t).Uid
}

func group(info fs.FileInfo) uint32 { return info.Sys().(*syscall.Stat_t).Gid }

func owned(info fs.FileInfo, uid uint32) bool {
	o := owner(info)
	return o == 0 || o == uid
}

// foreign refuses what belongs to somebody else. It may have been put there to
// be taken over, so chown is advised only for what the reader knows.
func foreign(path string, info fs.FileInfo, uid uint32) error {
	return refuse(path, info, "want owner root or uid %d; if you know what it holds, run: chown %d %q; else choose another path", uid, uid, path)
}

// refuse names the component with owner and mode, and what to do.
func refuse(path string, info fs.FileInfo, remedy string, args ...any) error {
	return fmt.Errorf("%w: %s %q is owned by uid %d with mode %s: %s", ErrUnsafe,
		kind(info.Mode()), path, owner(info), octal(info.Mode()), fmt.Sprintf(remedy, args...))
}

func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeSymlink != 0:
		return "link"
	case mode.IsRegular():
		return "file"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	default:
		return "special file"
	}
}

// octal writes a mode as chmod takes it.
func octal(mode fs.FileMode) string {
	n := uint32(mode.Perm())
	for bit, value := range map[fs.FileMode]uint32{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if mode&bit != 0 {
			n |= value
		}
	}
	return fmt.Sprintf("%04o", n)
}
