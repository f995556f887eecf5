package runtime

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/verdict"
)

// Client is a native executable that is held open: its inode can't become
// another file's while the launcher proves it.
type Client struct {
	Path string // without links
	Note string // what the user should know of how it was found
	id   Identity
	file *os.File
}

// Identity tells one state of one file from every other.
type Identity struct {
	Path             string
	Dev, Ino         uint64
	Size             int64
	Modified, Change int64 // nanoseconds
}

// String is the identity as a proof's digest has it.
func (i Identity) String() string { return fmt.Sprintf("%#v", i) }

// pin opens the program that path leads to.
func (s Search) pin(path string) (*Client, error) {
	fail := func(err error) error {
		return refuse(verdict.WiringUnproved, "opening the client", path, err.Error(), s.Program.Install)
	}
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return nil, fail(err)
	}
	f, err := os.OpenFile(real, unix.O_PATH|unix.O_NOFOLLOW, 0) // #nosec G304 -- found above
	if err != nil {
		return nil, fail(err)
	}
	id, err := identity(int(f.Fd()), "", real)
	if err != nil {
		f.Close()
		return nil, fail(err)
	}
	return &Client{Path: real, id: id, file: f}, nil
}

// Close lets go of the file.
func (c *Client) Close() { c.file.Close() }

// Identity is what the client was when it was opened.
func (c *Client) Identity() Identity { return c.id }

// Check says whether the path still leads to the file that was opened, with its
// bytes as they were.
func (c *Client) Check() error {
	now, err := IdentityOf(c.Path)
	if err == nil && now == c.id {
		return nil
	}
	return refuse(verdict.WiringUnproved, "executing", c.Path, "the file was replaced or written while it was proved", "launch again")
}

// IdentityOf looks at the file that a path without links leads to.
func IdentityOf(path string) (Identity, error) { return identity(unix.AT_FDCWD, path, path) }

func identity(fd int, at, path string) (Identity, error) {
	var st unix.Stat_t
	flags := unix.AT_SYMLINK_NOFOLLOW
	if at == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	if err := unix.Fstatat(fd, at, &st, flags); err != nil {
		return Identity{}, fmt.Errorf("looking at %s: %w", verdict.Object(path), err)
	}
	return Identity{Path: path, Dev: st.Dev, Ino: st.Ino, Size: st.Size, Modified: st.Mtim.Nano(), Change: st.Ctim.Nano()}, nil //nolint:unconvert // widths differ by architecture
}
