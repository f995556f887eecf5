package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/verdict"
)

// step is one thing that is made so, unless it is so already.
type step struct {
	what string
	done func() (bool, error)
	do   func() error
}

// take looks at all steps, so that what can't be done is said before anything is
// made, and then makes in order what isn't so. With dry it only says so.
func (c Command) take(steps []step, dry bool) error {
	done := make([]bool, len(steps))
	for i, s := range steps {
		var err error
		if done[i], err = s.done(); err != nil {
			return err
		}
	}
	for i, s := range steps {
		switch {
		case done[i] && dry:
			fmt.Fprintf(c.Stdout, "there already: %s\n", s.what)
		case done[i]:
		case dry:
			fmt.Fprintf(c.Stdout, "would make: %s\n", s.what)
		default:
			if err := s.do(); err != nil {
				return err
			}
			fmt.Fprintf(c.Stdout, "made: %s\n", s.what)
		}
	}
	return nil
}

// mark is the first line of a file that guard init --system may replace and
// guard uninstall --system may remove.
const mark = "# Written by guard init --system, which replaces it as long as this line stands here.\n"

// fileStep puts a file in place. One that somebody else wrote stays as it is.
func (c Command) fileStep(path string, mode os.FileMode, text []byte) step {
	return step{
		what: fmt.Sprintf("file %q, mode %04o", path, mode),
		done: func() (bool, error) {
			info, err := os.Lstat(path)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return false, nil
			case err != nil:
				return false, err
			case !info.Mode().IsRegular():
				return false, fmt.Errorf("writing %q: something is there that is no file; move it away", path)
			}
			old, err := os.ReadFile(path) // #nosec G304 -- one of a few fixed names below /etc
			if err != nil || bytes.Equal(old, text) {
				return err == nil, err
			}
			if !ours(old) {
				c.warn([]string{fmt.Sprintf("%q is there and says something else; it stays as it is", path)})
				return true, nil
			}
			return false, nil
		},
		do: func() error {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { // #nosec G301 -- directories of the system's configuration
				return fmt.Errorf("making the directory of %q: %w", path, err)
			}
			draft, err := writeDraft(path, text)
			if err != nil {
				return err
			}
			if err := errors.Join(os.Chmod(draft, mode), os.Rename(draft, path)); err != nil {
				_ = os.Remove(draft) // nothing is left to say but the error
				return fmt.Errorf("writing %q: %w", path, err)
			}
			return nil
		},
	}
}

// ownerStep gives a directory or file its owner, group and mode. It never
// follows a link: below the broker's own directory a name is the broker's.
func ownerStep(path, owner, group string, mode uint32, directory bool) step {
	kind := "file"
	if directory {
		kind = "directory"
	}
	return step{
		what: fmt.Sprintf("%s %q, %s:%s %04o", kind, path, owner, group, mode),
		done: func() (bool, error) {
			var st unix.Stat_t
			if err := unix.Lstat(path, &st); err != nil {
				if errors.Is(err, unix.ENOENT) && directory {
					return false, nil
				}
				return false, fmt.Errorf("looking at %q: %w", path, err)
			}
			if dir := st.Mode&unix.S_IFMT == unix.S_IFDIR; dir != directory {
				return false, fmt.Errorf("setting %q up: it is no %s; move it away", path, kind)
			}
			uid, gid, err := ids(owner, group)
			return err == nil && st.Uid == uid && st.Gid == gid && st.Mode&0o7777 == mode, nil
		},
		do: func() error { return setOwner(path, owner, group, mode, directory) },
	}
}

func setOwner(path, owner, group string, mode uint32, directory bool) error {
	uid, gid, err := ids(owner, group)
	if err != nil {
		return err
	}
	flags := unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	if directory {
		flags |= unix.O_DIRECTORY
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("making directory %q: %w", path, err)
		}
	}
	fd, err := unix.Open(path, flags, 0)
	if err != nil {
		return fmt.Errorf("opening %q: %w", path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	// The mode last: a change of owner takes setgid from a file.
	if err = unix.Fchown(fd, int(uid), int(gid)); err == nil {
		err = unix.Fchmod(fd, mode)
	}
	if err != nil {
		return fmt.Errorf("setting owner and mode of %q: %w", path, err)
	}
	return nil
}

// programDirs are where programs of the system are. PATH is not asked: with
// root's powers nothing is started that a user's variable names.
var programDirs = []string{"/usr/bin", "/bin", "/usr/sbin", "/sbin"}

// systemProgram finds a program of the system, or "".
func systemProgram(name string) string {
	for _, dir := range programDirs {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

// runSystem runs a program of the system; what it said is part of the error.
func runSystem(name string, args ...string) error {
	said := name + " " + strings.Join(args, " ")
	path := systemProgram(name)
	if path == "" {
		return fmt.Errorf("running %s: there is no %s in %s", said, name, strings.Join(programDirs, ", "))
	}
	cmd := exec.Command(path, args...) // #nosec G204 -- a fixed name in a directory of root's
	cmd.Env = []string{"PATH=" + strings.Join(programDirs, ":"), "LC_ALL=C"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running %s: %w: %s", said, err, verdict.Cut(verdict.Clean(strings.TrimSpace(string(out))), verdict.MaxReason))
	}
	return nil
}
