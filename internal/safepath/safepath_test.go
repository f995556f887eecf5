package safepath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// self is the uid that the tests run as.
func self() uint32 { return uint32(os.Getuid()) }

// tree makes a directory with safe modes whatever the umask is.
func tree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	chmod(t, dir, 0o700)
	return dir
}

func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string, mode fs.FileMode) string {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	chmod(t, path, mode)
	return path
}

func write(t *testing.T, path string, mode fs.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte("content\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	chmod(t, path, mode)
	return path
}

func link(t *testing.T, target, path string) string {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantUnsafe holds that err refuses, and names all of parts.
func wantUnsafe(t *testing.T, err error, parts ...string) {
	t.Helper()
	if !errors.Is(err, ErrUnsafe) {
		t.Fatalf("error = %v, want ErrUnsafe", err)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q lacks %q", err, p)
		}
	}
}

func TestDir(t *testing.T) {
	tests := []struct {
		name string
		make func(t *testing.T, dir string) string
		want []string // parts of the refusal; nil: safe
	}{
		{"0700", func(t *testing.T, d string) string { return mkdir(t, d+"/x", 0o700) }, nil},
		{"0755", func(t *testing.T, d string) string { return mkdir(t, d+"/x", 0o755) }, nil},
		{"group id bit", func(t *testing.T, d string) string { return mkdir(t, d+"/x", 0o700|fs.ModeSetgid) }, nil},
		{"0750", func(t *testing.T, d string) string { return mkdir(t, d+"/x", 0o750) }, []string{"/x", "mode 0750", "chmod 0700"}},
		{"0711", func(t *testing.T, d string) string { return mkdir(t, d+"/x", 0o711) }, []string{"chmod 0700"}},
		{"0555", func(t *testing.T, d string) string { return mkdir(t, d+"/x", 0o555) }, []string{"chmod 0755"}},
		{"group may write", func(t *testing.T, d string) string { return mkdir(t, d+"/x", 0o775) }, []string{"mode 0775", "chmod g-w"}},
		{"all may write", func(t *testing.T, d string) string { return mkdir(t, d+"/x", 0o777) }, []string{"mode 0777", "chmod go-w"}},
		{"parent 0750", func(t *testing.T, d string) string {
			return mkdir(t, mkdir(t, d+"/x", 0o750)+"/y", 0o700)
		}, nil},
		{"parent's group may write", func(t *testing.T, d string) string {
			return mkdir(t, mkdir(t, d+"/x", 0o770)+"/y", 0o700)
		}, []string{"/x\"", "mode 0770", "chmod g-w"}},
		{"link to a directory", func(t *testing.T, d string) string {
			mkdir(t, d+"/x", 0o700)
			return link(t, "x", d+"/l")
		}, nil},
		{"link on the way", func(t *testing.T, d string) string {
			mkdir(t, mkdir(t, d+"/x", 0o700)+"/y", 0o700)
			return link(t, d+"/x", d+"/l") + "/y"
		}, nil},
		{"link up and down", func(t *testing.T, d string) string {
			mkdir(t, d+"/x", 0o700)
			mkdir(t, d+"/y", 0o700)
			return link(t, "../y/./", d+"/x/l")
		}, nil},
		{"link to an unsafe one", func(t *testing.T, d string) string {
			mkdir(t, mkdir(t, d+"/x", 0o777)+"/y", 0o700)
			return link(t, "x/y", d+"/l")
		}, []string{"through link", "/x\"", "mode 0777"}},
		{"dangling link", func(t *testing.T, d string) string { return link(t, "none", d+"/l") }, []string{"/l\"", "leads to nothing"}},
		{"loop of links", func(t *testing.T, d string) string {
			link(t, "a", d+"/b")
			return link(t, "b", d+"/a")
		}, []string{"links on the way"}},
		{"file", func(t *testing.T, d string) string { return write(t, d+"/f", 0o600) }, []string{"file", "want a directory"}},
		{"below a file", func(t *testing.T, d string) string { return write(t, d+"/f", 0o600) + "/x" }, []string{"file", "want a directory"}},
		{"relative", func(*testing.T, string) string { return "x" }, []string{"relative"}},
		{"empty", func(*testing.T, string) string { return "" }, []string{"relative"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := tt.make(t, tree(t))
			err := Dir(path, self())
			if tt.want == nil && err != nil {
				t.Fatal(err)
			}
			if tt.want != nil {
				wantUnsafe(t, err, tt.want...)
			}
		})
	}
}

// The audit's directory has one mode and one group, and no other place has them.
func TestGroupDir(t *testing.T) {
	gid := uint32(os.Getgid())
	dir := mkdir(t, tree(t)+"/audit", 0o750|fs.ModeSetgid)
	if err := GroupDir(dir, self(), gid); err != nil {
		t.Errorf("mode 2750: %v", err)
	}
	wantUnsafe(t, Dir(dir, self()), "mode 2750", "want mode 0700 or 0755")
	wantUnsafe(t, GroupDir(dir, self(), gid+1), "mode 2750", "want group", "chgrp")
	for _, mode := range []fs.FileMode{0o700, 0o755, 0o750, 0o770 | fs.ModeSetgid, 0o755 | fs.ModeSetgid, 0o750 | fs.ModeSetgid | fs.ModeSticky} {
		chmod(t, dir, mode)
		wantUnsafe(t, GroupDir(dir, self(), gid), "audit", octal(mode))
	}
	chmod(t, dir, 0o750|fs.ModeSetgid)
	wantUnsafe(t, GroupDir(mkdir(t, mkdir(t, tree(t)+"/x", 0o775)+"/audit", 0o750|fs.ModeSetgid), self(), gid), "chmod g-w")
	wantUnsafe(t, GroupDir("audit", self(), gid), "relative")
	if err := GroupDir(dir+"/none", self(), gid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}

func TestAbsentIsNotUnsafe(t *testing.T) {
	dir := tree(t)
	for name, err := range map[string]error{
		"directory":        Dir(dir+"/none", self()),
		"parent":           Dir(dir+"/none/x", self()),
		"file":             File(dir+"/none", self()),
		"file below":       File(dir+"/none/x", self()),
		"file to be read":  read1(dir + "/none"),
		"secret, no place": secret1(dir + "/none/x"),
	} {
		if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrUnsafe) {
			t.Errorf("%s: error = %v, want fs.ErrNotExist", name, err)
		}
	}
}

func read1(path string) error   { _, err := ReadFile(path, self(), 100); return err }
func secret1(path string) error { _, err := ReadSecret(path, self(), 100); return err }

// The directory is someone else's: as root it is given away, else the test asks
// for another uid than its owner's.
func TestK2_ForeignOwner(t *testing.T) {
	dir := mkdir(t, tree(t)+"/guard", 0o755)
	asked := self() + 1
	if self() == 0 {
		if err := os.Chown(dir, 4242, -1); err != nil {
			t.Fatal(err)
		}
	}
	wantUnsafe(t, Dir(dir, asked), "is owned by uid", "want owner root or uid", "chown")
}

// Below a world-writable directory only a directory of root's or the user's
// own counts, and only if that one is sticky and root's.
func TestK2_WorldWritableParent(t *testing.T) {
	dir := tree(t)
	open := mkdir(t, dir+"/open", 0o777)
	wantUnsafe(t, Dir(mkdir(t, open+"/guard", 0o700), self()), "/open\"", "mode 0777", "everybody may write it")

	sticky := mkdir(t, dir+"/sticky", 0o777|fs.ModeSticky)
	own := mkdir(t, sticky+"/guard", 0o700)
	err := Dir(own, self())
	if self() != 0 { // a sticky directory of anybody but root is no shelter
		wantUnsafe(t, err, "mode 1777")
		return
	}
	if err != nil {
		t.Errorf("a directory below root's sticky one: %v", err)
	}
	wantUnsafe(t, Dir(link(t, own, sticky+"/l"), 0), "isn't followed")
	wantUnsafe(t, File(write(t, sticky+"/f", 0o600), 0), "mode 1777", "want mode 0700 or 0755")
	wantUnsafe(t, Dir(sticky, 0), "mode 1777", "want mode 0700 or 0755")
	if err := os.Chown(sticky, 4242, -1); err != nil {
		t.Fatal(err)
	}
	wantUnsafe(t, Dir(own, 4242), "everybody may write it")
}

func TestFile(t *testing.T) {
	tests := []struct {
		name string
		make func(t *testing.T, dir string) string
		want []string
	}{
		{"0644", func(t *testing.T, d string) string { return write(t, d+"/f", 0o644) }, nil},
		{"0755", func(t *testing.T, d string) string { return write(t, d+"/f", 0o755) }, nil},
		{"group may write", func(t *testing.T, d string) string { return write(t, d+"/f", 0o664) }, []string{"file", "mode 0664", "chmod go-w"}},
		{"all may write", func(t *testing.T, d string) string { return write(t, d+"/f", 0o606) }, []string{"mode 0606", "chmod go-w"}},
		{"link", func(t *testing.T, d string) string {
			write(t, d+"/f", 0o600)
			return link(t, "f", d+"/l")
		}, []string{"link", "want a regular file, not a link"}},
		{"dangling link", func(t *testing.T, d string) string { return link(t, "f", d+"/l") }, []string{"not a link"}},
		{"directory", func(t *testing.T, d string) string { return mkdir(t, d+"/d", 0o700) }, []string{"directory", "want a regular file"}},
		{"named pipe", func(t *testing.T, d string) string {
			if err := syscall.Mkfifo(d+"/p", 0o600); err != nil {
				t.Fatal(err)
			}
			return d + "/p"
		}, []string{"named pipe", "want a regular file"}},
		{"parent 0775", func(t *testing.T, d string) string {
			return write(t, mkdir(t, d+"/x", 0o775)+"/f", 0o600)
		}, []string{"/x\"", "chmod g-w"}},
		{"parent 0750", func(t *testing.T, d string) string {
			return write(t, mkdir(t, d+"/x", 0o750)+"/f", 0o600)
		}, []string{"/x\"", "chmod 0700"}},
		{"trailing slash", func(t *testing.T, d string) string { return write(t, d+"/f", 0o600) + "/" }, []string{"names no file"}},
		{"root", func(*testing.T, string) string { return "/" }, []string{"names no file"}},
		{"dots", func(_ *testing.T, d string) string { return d + "/x/.." }, []string{"names no file"}},
		{"relative", func(*testing.T, string) string { return "f" }, []string{"relative"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := tt.make(t, tree(t))
			b, readErr := ReadFile(path, self(), 100)
			for _, err := range []error{File(path, self()), readErr} {
				if tt.want != nil {
					wantUnsafe(t, err, tt.want...)
				} else if err != nil {
					t.Error(err)
				}
			}
			if tt.want == nil && string(b) != "content\n" || tt.want != nil && b != nil {
				t.Errorf("read %q", b)
			}
		})
	}
}

func TestReadFileIsBounded(t *testing.T) {
	path := write(t, tree(t)+"/f", 0o600) // 8 bytes
	if b, err := ReadFile(path, self(), 8); err != nil || len(b) != 8 {
		t.Errorf("at the limit: %q, %v", b, err)
	}
	b, err := ReadFile(path, self(), 7)
	if err == nil || b != nil || !strings.Contains(err.Error(), "more than 7 bytes") {
		t.Errorf("above the limit: %q, %v", b, err)
	}
}

func TestReadSecret(t *testing.T) {
	dir := tree(t)
	for mode, safe := range map[fs.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o644: false, 0o700: false, 0o604: false} {
		path := filepath.Join(dir, octal(mode))
		b, err := ReadSecret(write(t, path, mode), self(), 100)
		if safe && (err != nil || string(b) != "content\n") {
			t.Errorf("mode %s: %q, %v", octal(mode), b, err)
		}
		if !safe {
			wantUnsafe(t, err, "chmod 0600")
		}
	}
}

func TestRefusalSaysAll(t *testing.T) {
	path := mkdir(t, tree(t)+"/x", 0o750)
	want := `checking path "` + path + `": unsafe path: directory "` + path + `" is owned by uid `
	if err := Dir(path, self()); !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error = %v, want it to begin with %s", err, want)
	}
}
