package client

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"leaseguard.internal/internal/wire"
)

// project makes a directory whose policy hooks make puts into place.
func project(t *testing.T, make func(path string) error) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".guard"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := make(filepath.Join(dir, ".guard", "hooks.json")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(mode os.FileMode, size int) func(string) error {
	return func(path string) error {
		if err := os.WriteFile(path, bytes.Repeat([]byte("x"), size), 0o600); err != nil {
			return err
		}
		return os.Chmod(path, mode)
	}
}

// TestM20_W7_ProjectFileIsOpenedSafely: only a regular file of root's or our own
// that nobody else may write is read, by no link, within its bound, and nothing is
// waited for.
func TestM20_W7_ProjectFileIsOpenedSafely(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(path string) error
		why  string // "": it is read
	}{
		{"plain", write(0o644, 10), ""},
		{"empty", write(0o600, 0), ""},
		{"exactly 1 MiB", write(0o644, 1<<20), ""},
		{"one byte more", write(0o644, 1<<20+1), "exceeds 1 MiB"},
		{"group may write", write(0o664, 1), "mode 0664"},
		{"all may write", write(0o606, 1), "chmod go-w"},
		{"link", func(p string) error { return os.Symlink("/etc/hostname", p) }, "link"},
		{"link to a device", func(p string) error { return os.Symlink("/dev/zero", p) }, "link"},
		{"dangling link", func(p string) error { return os.Symlink("none", p) }, "link"},
		{"pipe that nobody writes", func(p string) error { return syscall.Mkfifo(p, 0o644) }, "not a regular file"},
		{"directory", func(p string) error { return os.Mkdir(p, 0o755) }, "not a regular file"},
		{"socket", func(p string) error {
			fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
			if err == nil {
				defer func() { _ = syscall.Close(fd) }()
				err = syscall.Bind(fd, &syscall.SockaddrUnix{Name: p})
			}
			return err
		}, "no such device"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, text := ReadProject(project(t, tt.make))
			switch {
			case tt.why == "" && got != (wire.ProjectHooks{State: wire.ProjectRead}):
				t.Errorf("%+v", got)
			case tt.why != "" && (got.State != wire.ProjectUnreadable || !strings.Contains(got.Why, tt.why) || text != nil):
				t.Errorf("%+v with %d bytes; want %q", got, len(text), tt.why)
			}
		})
	}
}

// TestM20_ProjectFileOfSomebodyElse needs two users.
func TestM20_ProjectFileOfSomebodyElse(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a file away; CI runs as root")
	}
	dir := project(t, func(path string) error {
		if err := write(0o644, 1)(path); err != nil {
			return err
		}
		return os.Chown(path, 4242, 4242)
	})
	if got, _ := ReadProject(dir); got.State != wire.ProjectUnreadable || !strings.Contains(got.Why, "uid 4242") {
		t.Errorf("%+v", got)
	}
	// An operator looks at other people's files, and decides.
	if got, text, err := LookAtProject(dir); got.State != wire.ProjectRead || len(text) != 1 || err != nil {
		t.Errorf("%+v, %d bytes, %v", got, len(text), err)
	}
}

// TestM2_NoFileIsNoFault, and whatever else is in its place is one.
func TestM2_NoFileIsNoFault(t *testing.T) {
	absent := wire.ProjectHooks{State: wire.ProjectAbsent}
	dir := t.TempDir()
	if got, _ := ReadProject(dir); got != absent {
		t.Errorf("without .guard: %+v", got)
	}
	if err := os.WriteFile(filepath.Join(dir, ".guard"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _ := ReadProject(dir); got.State != wire.ProjectUnreadable || !strings.Contains(got.Why, "not a directory") {
		t.Errorf("with a file as .guard: %+v", got)
	}
	if err := os.Remove(filepath.Join(dir, ".guard")); err != nil {
		t.Fatal(err)
	}
	elsewhere := project(t, write(0o644, 1))
	if err := os.Symlink(filepath.Join(elsewhere, ".guard"), filepath.Join(dir, ".guard")); err != nil {
		t.Fatal(err)
	}
	if got, _ := ReadProject(dir); got.State != wire.ProjectUnreadable || !strings.Contains(got.Why, "link") {
		t.Errorf("with a link as .guard: %+v", got)
	}
	if got, _ := ReadProject(filepath.Join(dir, "gone")); got.State != wire.ProjectUnreadable {
		t.Errorf("of a directory that is gone: %+v", got)
	}
	if _, _, err := LookAtProject(dir); err == nil || !strings.Contains(err.Error(), "link") {
		t.Errorf("an operator's look through a link: %v", err)
	}
}

// TestM1_NoProjectIsLookedForFurtherUp: what is above the directory isn't its own.
func TestM1_NoProjectIsLookedForFurtherUp(t *testing.T) {
	sub := filepath.Join(project(t, write(0o644, 1)), "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, _ := ReadProject(sub); got.State != wire.ProjectAbsent {
		t.Errorf("%+v", got)
	}
}
