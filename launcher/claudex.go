package launcher

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/durable"
	"leaseguard.internal/internal/verdict"
	host "leaseguard.internal/launcher/runtime"
)

// claudexDir is where claudex lives below HOME when nobody says otherwise.
const claudexDir = ".claudex"

// maxFile is the longest settings file that is merged into.
const maxFile = 1 << 20

// newClaudex launches Claude with a configuration directory of its own. It is
// gated like any Claude, by inline settings, since a project can silence a hook
// that stands in a file. The gate is put into that directory's settings too, so
// that whoever starts Claude there without guard has its calls denied.
func newClaudex(l AgentLaunch) agent {
	return &claude{common: common{AgentLaunch: l}, name: "claudex", table: host.Claudex}
}

// isolate chooses the configuration directory, makes it, and has everything that
// comes look there.
func (c *claude) isolate() error {
	home := c.lookup("HOME")
	dir := cmp.Or(c.ConfigDir, c.lookup("CLAUDE_CONFIG_DIR"), filepath.Join(home, claudexDir))
	bad := func(cause string) error {
		return refuse(verdict.ConfigInvalid, "using as the configuration directory of claudex", dir, cause, "guard launch claudex --config-dir DIR")
	}
	if c.ConfigDir != "" && !filepath.IsAbs(dir) { // relative to where it was typed
		here, err := workingDir()
		if err != nil {
			return err
		}
		dir = filepath.Join(here, dir)
	}
	dir = filepath.Clean(dir)
	if !filepath.IsAbs(dir) || dir == "/" {
		return bad("want a directory that begins with /")
	}
	if !c.look {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return bad(err.Error())
		}
	}
	info, err := os.Stat(dir)
	switch {
	case c.look && errors.Is(err, fs.ErrNotExist):
		return errUnused
	case err != nil:
		return bad(err.Error())
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return bad("it has to be its user's own, and nobody else's to write")
	}
	for _, other := range []string{home, filepath.Join(home, ".claude")} {
		if shared, err := os.Stat(other); err == nil && os.SameFile(info, shared) {
			return bad("it is the one of claude itself, and claudex has its own")
		}
	}
	c.Env = host.Over(c.Env, []string{"CLAUDE_CONFIG_DIR=" + dir})
	return nil
}

// errUnused says that claudex was never launched here.
var errUnused = errors.New("its configuration directory isn't there yet")

// settle puts the gate into the directory's settings file. The file is replaced
// as a whole or not at all, and not at all when it is anything but a plain file
// of its user's that the client would read.
func (c *claude) settle() error {
	path := c.user.SettingsFile
	bad := func(cause string) error {
		return refuse(verdict.ConfigInvalid, "putting the gate into", path, cause, "make it a plain file of your own, or choose another directory: guard launch claudex --config-dir DIR")
	}
	old, err := openSettings(path)
	if err != nil {
		return bad(err.Error())
	}
	text, err := c.install("").MergeHooks(path, old.text)
	if err != nil {
		return err
	}
	switch {
	case bytes.Equal(text, old.text):
	case c.look:
		c.Warn("the gate is not in " + verdict.Object(path) + " as it would be: guard launch claudex puts it there")
	default:
		if err := old.replace(text); err != nil {
			return bad(err.Error())
		}
	}
	c.user.Settings = text
	return nil
}

// settingsFile is a settings file as it was found.
type settingsFile struct {
	path  string
	text  []byte
	mode  fs.FileMode
	id    host.Identity
	found bool
}

// openSettings reads a file that may be replaced: no link, one name, and its
// user's own.
func openSettings(path string) (s settingsFile, err error) {
	s = settingsFile{path: path, mode: 0o600}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0) // #nosec G304 -- the file that the user chose
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, nil
	case errors.Is(err, unix.ELOOP):
		return s, errors.New("it is a symbolic link, and a file that is replaced would split it from what it leads to")
	case err != nil:
		return s, errors.Unwrap(err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return s, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return s, errors.New("it is no regular file")
	case !ok || int(st.Uid) != os.Geteuid():
		return s, errors.New("it belongs to somebody else")
	case st.Nlink != 1:
		return s, errors.New("it has further names (hard links), which would keep what it was")
	}
	if s.id, err = host.IdentityOf(path); err != nil {
		return s, err
	}
	if s.id.Ino != st.Ino {
		return s, errChanged
	}
	s.found, s.mode = true, info.Mode().Perm()
	s.text, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(s.text) > maxFile {
		err = fmt.Errorf("it has more than %d bytes", maxFile)
	}
	return s, err
}

var errChanged = errors.New("somebody else writes to it at this moment")

// replace puts a new text in the file's place, with the mode that it had.
func (s settingsFile) replace(text []byte) error {
	dir := filepath.Dir(s.path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(s.path)+".guard-*")
	if err != nil {
		return errors.Unwrap(err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already where it was renamed
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(s.mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if !s.found {
		if err := os.Link(f.Name(), s.path); err != nil { // which replaces nothing
			return errChanged
		}
		return durable.SyncDir(dir)
	}
	if now, err := host.IdentityOf(s.path); err != nil || now != s.id {
		return errChanged
	}
	if err := os.Rename(f.Name(), s.path); err != nil {
		return errors.Unwrap(err)
	}
	return durable.SyncDir(dir)
}
