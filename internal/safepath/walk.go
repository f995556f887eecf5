package safepath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// walk goes down a path and tests each directory before it looks into it.
type walk struct {
	uid   uint32
	stack []component // from / to where the walk stands
	links int
}

type component struct {
	path string
	info fs.FileInfo
	open bool // world-writable (root's, sticky): what comes next is tested harder
}

// path is where the walk stands, without links.
func (w *walk) path() string { return w.stack[len(w.stack)-1].path }

// follow walks path, from / when it is absolute, else from where the walk is.
func (w *walk) follow(path string) error {
	if filepath.IsAbs(path) {
		w.stack = w.stack[:1]
	}
	for name := range strings.SplitSeq(path, "/") {
		if err := w.step(name); err != nil {
			return err
		}
	}
	return nil
}

// step goes to one name in the directory where the walk stands.
func (w *walk) step(name string) error {
	switch name {
	case "", ".":
		return nil
	case "..":
		w.stack = w.stack[:max(1, len(w.stack)-1)]
		return nil
	}
	return w.enter(filepath.Join(w.path(), name))
}

// enter tests a name of the present directory, and goes there.
func (w *walk) enter(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	mode := info.Mode()
	if !owned(info, w.uid) {
		return foreign(path, info, w.uid)
	}
	if mode&fs.ModeSymlink != 0 {
		return w.link(path, info)
	}
	if !mode.IsDir() {
		return refuse(path, info, "want a directory; choose another path")
	}
	open := mode.Perm()&0o002 != 0
	if open && (owner(info) != 0 || mode&fs.ModeSticky == 0) {
		return refuse(path, info, "everybody may write it; run: chmod go-w %q", path)
	}
	if !open && mode.Perm()&othersWrite != 0 {
		return refuse(path, info, "its group may write it; run: chmod g-w %q", path)
	}
	w.stack = append(w.stack, component{path, info, open})
	return nil
}

// link follows a link that root or the user made.
func (w *walk) link(path string, info fs.FileInfo) error {
	if w.stack[len(w.stack)-1].open {
		return refuse(path, info, "a link in a world-writable directory isn't followed; give the path that it leads to")
	}
	if w.links++; w.links > maxLinks {
		return refuse(path, info, "more than %d links on the way; remove the loop", maxLinks)
	}
	target, err := os.Readlink(path)
	if err != nil {
		return err
	}
	err = w.follow(target)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		// Not the same as absent: somebody meant a file to be there.
		return refuse(path, info, "it leads to nothing (%v); remove it or make its target", err)
	}
	return fmt.Errorf("through link %q: %w", path, err)
}
