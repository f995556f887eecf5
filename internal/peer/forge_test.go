package peer

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const forges = "PEER_TEST_FORGES"

// TestForgerProcess is no test: as the first process of namespaces of its own it
// sends in the name of a process there, and of one outside, and tells what came of
// both.
func TestForgerProcess(t *testing.T) {
	outside, err := strconv.Atoi(os.Getenv(forges))
	if err != nil {
		return
	}
	if err := unix.Kill(outside, 0); !errors.Is(err, unix.ESRCH) {
		t.Fatalf("process %d is in here too: %v", outside, err)
	}
	child := exec.Command("/bin/cat")
	in, err := child.StdinPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = in.Close(), child.Wait() }()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	send := func(pid int) error {
		oob := unix.UnixCredentials(&unix.Ucred{Pid: int32(pid), Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid())})
		return unix.Sendmsg(pair[0], []byte("x"), oob, nil, 0)
	}
	fmt.Printf("inside: %v\noutside: %v\n", send(child.Process.Pid), send(outside))
}

// TestForgedSenderIsOfTheSameTree: who makes namespaces of his own may send in the
// name of another process, but of none outside of them. All that are inside are
// below whoever made them, and so in the same session.
func TestForgedSenderIsOfTheSameTree(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestForgerProcess$", "-test.v")
	cmd.Env = []string{forges + "=" + strconv.Itoa(os.Getpid())}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EPERM) && os.Getuid() != 0 {
		t.Skip("this machine gives ordinary users no namespaces; CI runs this as root")
	}
	if err != nil || !strings.Contains(string(out), "inside: <nil>\n") || !strings.Contains(string(out), "outside: no such process\n") {
		t.Errorf("%v: %s", err, out)
	}
}
