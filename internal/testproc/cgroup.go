package testproc

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/proc"
)

// CgroupDir is the directory of the cgroup (version 2) that the test is in. It is
// empty where the test can't make others there.
func CgroupDir(t testing.TB) string {
	t.Helper()
	if os.Geteuid() != 0 {
		return ""
	}
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	at, err := proc.ParseCgroup(text)
	if err != nil {
		return ""
	}
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		dir := filepath.Join(mount, at)
		if _, err := os.Stat(filepath.Join(dir, "cgroup.controllers")); err == nil {
			return dir
		}
	}
	return ""
}

// Cgroup makes a cgroup of that name below the test's own, with the processes in
// it. What is in it at the test's end goes back. It skips the test where there
// can be none.
func Cgroup(t testing.TB, name string, pids ...int) (dir string) {
	t.Helper()
	own := CgroupDir(t)
	if own == "" {
		Lacks(t, "needs root and cgroup version 2")
	}
	dir = filepath.Join(own, name)
	if err := os.Mkdir(dir, 0o755); err != nil { // #nosec G301 -- as systemd makes it
		t.Fatal(err)
	}
	t.Cleanup(func() {
		text, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs")) // #nosec G304 -- the directory made above
		for _, pid := range strings.Fields(string(text)) {
			_ = os.WriteFile(filepath.Join(own, "cgroup.procs"), []byte(pid), 0) // it may have ended
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err := os.Remove(dir)
		for err != nil && clock.Sleep(ctx, time.Millisecond) == nil { // the killed may still be on their way
			err = os.Remove(dir)
		}
		if err != nil {
			t.Error(err)
		}
	})
	for _, pid := range pids {
		Move(t, dir, pid)
	}
	return dir
}

// Move puts a process into the cgroup of that directory.
func Move(t testing.TB, dir string, pid int) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(fmt.Sprint(pid)), 0); err != nil { // #nosec G306 -- it is there already
		t.Fatal(err)
	}
}
