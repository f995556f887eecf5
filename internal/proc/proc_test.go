package proc

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDirOfThisProcess(t *testing.T) {
	d, err := Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	st, err := d.Stat()
	if err != nil || st.PID != os.Getpid() || st.PPID != os.Getppid() || st.StartTime == 0 {
		t.Errorf("Stat = %+v, %v", st, err)
	}
	if st, err := d.Status(); err != nil || int(st.EUID()) != os.Geteuid() || int(st.UIDs[0]) != os.Getuid() {
		t.Errorf("Status = %+v, %v; want uid %d", st, err, os.Geteuid())
	}
}

// A directory that is held never shows another process: not even one that got
// the same number.
func TestDirOfReapedProcess(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d, err := Open(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if st, err := d.Stat(); err == nil || st != (Stat{}) {
		t.Errorf("Stat = %+v, %v; want an error", st, err)
	}
	if st, err := d.Status(); err == nil {
		t.Errorf("Status = %+v, want an error", st)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, pid := range []int{0, -1} {
		if _, err := Open(pid); err == nil {
			t.Errorf("Open(%d) succeeded", pid)
		}
	}
	if _, err := Open(1 << 30); !errors.Is(err, unix.ENOENT) {
		t.Errorf("Open of a pid that can't be: %v, want ENOENT", err)
	}
}

func TestZeroDirReadsNothing(t *testing.T) {
	var d Dir
	if _, err := d.Stat(); err == nil {
		t.Error("Stat succeeded")
	}
	if err := d.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}
