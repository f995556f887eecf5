package store

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/verdict"
)

// maxLocks bounds how much of /proc/locks is read for one name.
const maxLocks = 1 << 20

// holder says who has f locked, as far as the kernel tells.
func holder(f *os.File) string {
	const unknown = "another process"
	info, err := f.Stat()
	if err != nil {
		return unknown
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return unknown
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return unknown
	}
	defer func() { _ = locks.Close() }()
	text, err := io.ReadAll(io.LimitReader(locks, maxLocks))
	if err != nil {
		return unknown
	}
	pid, ok := findLock(text, unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	if !ok {
		return unknown
	}
	name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if err != nil {
		return fmt.Sprintf("process %d", pid)
	}
	return fmt.Sprintf("process %d (%s)", pid, verdict.Object(string(bytes.TrimSpace(name))))
}

// findLock looks in the text of /proc/locks for who holds the flock of a file:
//
//	1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF
func findLock(text []byte, major, minor uint32, inode uint64) (pid int, ok bool) {
	want := fmt.Sprintf("%02x:%02x:%d", major, minor, inode)
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" || f[5] != want {
			continue
		}
		if pid, err := strconv.Atoi(f[4]); err == nil && pid > 0 {
			return pid, true
		}
	}
	return 0, false
}
