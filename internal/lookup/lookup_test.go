package lookup

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNamedAndResolved(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file) // which also puts it into the kernel's memory
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	for _, tt := range []struct {
		name, path, leads string
		fails             error
	}{
		{"file", file, file, nil},
		{"link", filepath.Join(dir, "link"), file, nil},
		{"dots", dir + "/../" + filepath.Base(dir) + "/./file", file, nil},
		{"nothing", filepath.Join(dir, "nothing"), "", unix.ENOENT},
		{"relative", "lookup.go", "", errAny},
		{"empty", "", "", errAny},
		{"root of a process", "/proc/self/root" + file, "", unix.ELOOP},
		{"directory of a process", "/proc/self/cwd/lookup.go", "", unix.ELOOP},
		{"descriptor of a process", "/proc/self/fd/0", "", unix.ELOOP},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leads, err := Resolved(tt.path)
			got, nameErr := Named(tt.path)
			if tt.fails != nil {
				// What isn't in memory is as good as what fails.
				for _, err := range []error{err, nameErr} {
					if err == nil || !errors.Is(tt.fails, errAny) && !errors.Is(err, tt.fails) && !errors.Is(err, unix.EAGAIN) {
						t.Errorf("%v, want %v", err, tt.fails)
					}
				}
				return
			}
			if cacheless(err) {
				t.Skip("this file system or kernel answers nothing from memory:", err)
			}
			if err != nil || leads != tt.leads {
				t.Errorf("Resolved(%q) = %q, %v; want %q", tt.path, leads, err, tt.leads)
			}
			if want := (File{st.Dev, st.Ino}); nameErr != nil || got != want {
				t.Errorf("Named(%q) = %v, %v; want %v", tt.path, got, nameErr, want)
			}
		})
	}
}

var errAny = errors.New("any")

func cacheless(err error) bool {
	return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS)
}

// A link of /proc leads to its file, also when that has lost its name.
func TestLink(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	link := "/proc/self/fd/" + strconv.Itoa(int(f.Fd()))
	for _, state := range []string{"named", "removed"} {
		if got, err := Link(link); err != nil || got != (File{st.Dev, st.Ino}) {
			t.Errorf("%s: %v, %v; want %d:%d", state, got, err, st.Dev, st.Ino)
		}
		if err := os.Remove(f.Name()); state == "named" && err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Link("/proc/self/fd/nothing"); !errors.Is(err, unix.ENOENT) {
		t.Errorf("no link: %v", err)
	}
}
