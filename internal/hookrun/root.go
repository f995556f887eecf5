package hookrun

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/safepath"
	"leaseguard.internal/internal/wire"
)

// hold makes sure of a file's bytes and returns their hash with what to run of
// them; nil is the file's own path. A file that only root can change is hashed and
// used as it stands. If the kernel says that it is the very file that was hashed
// when it was trusted, and that nothing of it has changed since, it isn't hashed
// again: an interpreter may have a hundred megabytes.
func hold(ctx context.Context, f *os.File, command bool, trusted wire.HookFile) (held *os.File, sum string, err error) {
	if !fixed(f) {
		return seal(ctx, f)
	}
	if sum = trusted.SHA256; trusted.Stamp == "" || stampOf(f) != trusted.Stamp {
		if sum, err = copyOut(ctx, f, io.Discard); err != nil {
			return nil, "", err
		}
	}
	if command {
		held, err = dup(f)
	}
	return held, sum, err
}

// stampOf names an open file and its last change, which nobody can set back.
func stampOf(f *os.File) string {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return ""
	}
	return fmt.Sprintf("%x.%x.%x.%x.%x", st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
}

const maxLinks = 40

// fixed says whether only the machine's root can change the file. Where the ids are
// those of a namespace, its root may be anybody.
func fixed(f *os.File) bool { return machinesIDs() && onlyRoots(f.Name()) }

// onlyRoots says whether only root can change what the path leads to, link by link.
func onlyRoots(path string) bool {
	for range maxLinks {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil || safepath.Dir(filepath.Dir(path), 0) != nil {
			return false
		}
		target, err := os.Readlink(path)
		if err != nil {
			return safepath.File(path, 0) == nil
		}
		if path = target; !filepath.IsAbs(target) {
			path = filepath.Join(dir, target)
		}
	}
	return false
}

// machinesIDs says whether this process sees users as the machine does.
func machinesIDs() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && bytes.Equal(bytes.Join(bytes.Fields(text), []byte(" ")), []byte("0 0 4294967295"))
}
