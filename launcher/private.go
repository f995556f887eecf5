package launcher

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/proc"
)

// privateFile writes a file that this process's runtime reads: below root, in a
// directory of the session's, for its user alone. Its name holds the process, so
// that a later launch can tell which ones are no longer read, and removes them.
func privateFile(root, session, name string, text []byte) (string, error) {
	uid := uint32(os.Getuid()) // #nosec G115 -- the kernel's uids are 32 bits
	dir := filepath.Join(root, session)
	if err := paths.EnsureDir(dir, uid); err != nil {
		return "", err
	}
	sweep(root)
	start, err := startTime(os.Getpid())
	if err != nil {
		return "", err
	}
	ext := filepath.Ext(name)
	path := filepath.Join(dir, fmt.Sprintf("%s-%d-%d%s", strings.TrimSuffix(name, ext), os.Getpid(), start, ext))
	_ = os.Remove(path)                                                                   // of an earlier try of this very process
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600) // #nosec G304 -- below the broker's own directory, which was checked
	if err != nil {
		return "", fmt.Errorf("writing what the session reads: %w", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("writing what the session reads to %q: %w", path, err)
	}
	return path, nil
}

// sweep removes the files of processes that have ended, and directories that
// are empty then. What can't be removed stays for the next launch.
func sweep(root string) {
	sessions, _ := os.ReadDir(root)
	for _, s := range sessions {
		dir := filepath.Join(root, s.Name())
		files, _ := os.ReadDir(dir)
		for _, f := range files {
			if ended(f.Name()) {
				_ = os.Remove(filepath.Join(dir, f.Name()))
			}
		}
		if len(files) > 0 {
			_ = os.Remove(dir) // only an empty one goes
		}
	}
}

// ended says whether the process that a file's name holds is gone.
func ended(file string) bool {
	parts := strings.Split(strings.TrimSuffix(file, filepath.Ext(file)), "-")
	if len(parts) != 3 {
		return false
	}
	pid, err1 := strconv.Atoi(parts[1])
	start, err2 := strconv.ParseUint(parts[2], 10, 64)
	if err1 != nil || err2 != nil {
		return false
	}
	now, err := startTime(pid)
	return err != nil || now != start
}

func startTime(pid int) (uint64, error) {
	d, err := proc.Open(pid)
	if err != nil {
		return 0, err
	}
	defer func() { _ = d.Close() }()
	st, err := d.Stat()
	return st.StartTime, err
}
