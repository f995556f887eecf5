//go:build attacks

// Package attacks attacks the identity of real programs: a broker, gates and
// sessions, by processes that are born, die, pass descriptors on and reuse pids
// at the worst moment. Each test is one attack, numbered, and says in its
// comment which line it is that stops it.
//
// Root runs all of them, then the same as an ordinary user; anybody else runs
// what needs no root. GUARD_SIZE=nightly makes those that depend on a moment
// longer.
package attacks

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/sandbox/sandboxtest"
	"leaseguard.internal/internal/testproc"
)

const (
	// programsVar says where the programs are: this run is a part of another one.
	programsVar = "ATTACKS_PROGRAMS"
	// agentVar makes this program a scripted agent.
	agentVar = "ATTACKS_AGENT"
	// ordinary is nobody's uid. It owns nothing.
	ordinary = 64001
)

var programs client.Programs

func TestMain(m *testing.M) {
	testproc.Enter()
	sandboxtest.Play(agentVar)
	os.Exit(run(m))
}

func run(m *testing.M) int {
	// Children die with the thread that started them, and so with this one.
	runtime.LockOSThread()
	dir := os.Getenv(programsVar)
	part := dir != ""
	if !part {
		var err error
		if dir, err = build(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
	}
	programs = sandboxtest.Programs(dir)
	code := m.Run()
	if code == 0 && !part && os.Getuid() == 0 {
		fmt.Println("the same as an ordinary user:")
		cmd, err := again(dir, ordinary, os.Args[1:])
		if err == nil {
			err = cmd.Run()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "as an ordinary user:", err)
			return 1
		}
	}
	return code
}

// build compiles the programs, with fail points in the broker, to where every
// user can run them.
func build() (string, error) {
	dir, err := os.MkdirTemp("", "guard-attacks-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	if err := sandboxtest.Build(dir, sandboxtest.Failpoints); err != nil {
		return dir, err
	}
	return dir, copyFile(filepath.Join(dir, "attacks.test"), "/proc/self/exe", 0o755)
}

func copyFile(to, from string, mode os.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}

// again is this program as another user, in a directory of theirs.
func again(dir string, uid uint32, args []string) (*exec.Cmd, error) {
	home, err := os.MkdirTemp(dir, "home-")
	if err != nil {
		return nil, err
	}
	if err := os.Chown(home, int(uid), int(uid)); err != nil {
		return nil, err
	}
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { // files of root's
		return strings.HasPrefix(a, "-test.testlogfile") || strings.HasPrefix(a, "-test.coverprofile") || strings.HasPrefix(a, "-test.gocoverdir")
	})
	cmd := exec.Command(filepath.Join(dir, "attacks.test"), args...)
	cmd.Env = append(os.Environ(), programsVar+"="+dir, "TMPDIR="+home, "HOME="+home)
	cmd.Dir, cmd.Stdout, cmd.Stderr = home, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}, Pdeathsig: syscall.SIGKILL}
	return cmd, nil
}

// asUser runs one test of this program as another user.
func asUser(t *testing.T, uid uint32) {
	t.Helper()
	needRoot(t)
	cmd, err := again(filepath.Dir(programs.Gate), uid, []string{"-test.run", "^" + t.Name() + "$", "-test.v"})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Errorf("as uid %d: %v\n%s", uid, err, out.String())
	}
}

// inPIDNamespace runs the test of this name in a pid namespace of its own, whose
// pids nobody else takes: in there it answers true, and around it false.
func inPIDNamespace(t *testing.T) bool {
	t.Helper()
	const inside = "ATTACKS_PIDS"
	if os.Getenv(inside) == t.Name() {
		if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			t.Fatal(err)
		}
		return true
	}
	needRoot(t)
	cmd := exec.Command("/proc/self/exe", "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), programsVar+"="+filepath.Dir(programs.Gate), inside+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("in a pid namespace: %v\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
	return false
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, as which CI runs it")
	}
}
