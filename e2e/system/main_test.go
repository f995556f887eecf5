//go:build system

// Package system tests system mode on the machine that it runs on, which stays
// as it is: as root the test binary goes into a mount namespace of its own, with
// copies of /etc and empty /run, /var/lib, /opt and /home, before any test runs.
//
//	make system
package system

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// insideEnv marks the process that has gone into its namespace.
const insideEnv = "GUARD_SYSTEM_TEST_INSIDE"

// programs is where the built programs are, as an administrator would put them.
const programs = "/opt/guard/bin"

// pristine keeps the accounts as they were before the first test.
const pristine = "/mnt/pristine"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == confineName {
		fmt.Fprintln(os.Stderr, "confine:", confine(os.Args[1:]))
		os.Exit(1)
	}
	if os.Getuid() != 0 || os.Getenv(insideEnv) != "" {
		if os.Getuid() == 0 {
			if err := furnish(); err != nil {
				fmt.Fprintln(os.Stderr, "preparing the namespace:", err)
				os.Exit(1)
			}
		}
		os.Exit(m.Run())
	}
	os.Exit(enter())
}

// enter runs this binary again in a namespace of its own.
func enter() int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode()
	case err != nil:
		fmt.Fprintln(os.Stderr, "entering a mount namespace:", err)
		return 1
	}
	return 0
}

func furnish() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	for _, dir := range []string{"/mnt", "/run", "/var/lib", "/opt", "/home"} {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"); err != nil {
			return fmt.Errorf("mounting on %s: %w", dir, err)
		}
	}
	if out, err := exec.Command("cp", "-a", "/etc", "/mnt/etc").CombinedOutput(); err != nil {
		return fmt.Errorf("copying /etc: %w: %s", err, out)
	}
	if err := unix.Mount("/mnt/etc", "/etc", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting the copy of /etc: %w", err)
	}
	if err := keepAccounts(); err != nil {
		return err
	}
	return installPrograms(programs)
}

// accountFiles are what useradd and systemd-sysusers change.
var accountFiles = []string{"passwd", "group", "shadow", "gshadow"}

func keepAccounts() error {
	if err := os.Mkdir(pristine, 0o700); err != nil {
		return err
	}
	for _, name := range accountFiles {
		if out, err := exec.Command("cp", "-a", "/etc/"+name, pristine).CombinedOutput(); err != nil {
			return fmt.Errorf("keeping /etc/%s: %w: %s", name, err, out)
		}
	}
	return nil
}

// installPrograms copies what make build made.
func installPrograms(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"guard", "guard-broker", "guard-gate"} {
		b, err := os.ReadFile(filepath.Join("..", "..", "bin", name))
		if err != nil {
			return fmt.Errorf("%w; run: make build", err)
		}
		path := filepath.Join(dir, name)
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		if err := os.WriteFile(path, b, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// bare gives the test a machine without guard but for its programs, and takes
// away afterwards what it made.
func bare(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, as which CI runs it: make system")
	}
	clean(t)
	t.Cleanup(func() { clean(t) })
}

func clean(t testing.TB) {
	t.Helper()
	for _, name := range accountFiles {
		if err := exec.Command("cp", "-a", filepath.Join(pristine, name), "/etc/"+name).Run(); err != nil {
			t.Fatal(err)
		}
	}
	units, _ := filepath.Glob("/etc/systemd/system/guard-*")
	homes, _ := filepath.Glob("/home/*")
	for _, path := range append(append(units, homes...), "/etc/guard", "/etc/claude-code", "/etc/sysusers.d", "/etc/tmpfiles.d", "/var/lib/guard", "/run/guard", "/run/systemd") {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := installPrograms(programs); err != nil {
		t.Fatal(err)
	}
}

// run runs a program that must end well, and returns what it wrote.
func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}
