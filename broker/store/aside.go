package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/durable"
	"leaseguard.internal/internal/failpoint"
)

// A guard that doesn't start gets switched off, so the broker doesn't insist on
// a store that no broker can have written: it renames the file and begins anew,
// with no authority. What is refused for other reasons (owner, mode, links, a
// network file system, a lock that somebody holds, a newer version's layout)
// stays refused: there somebody has to decide.

// maxAside is how many damaged stores may lie beside the good one. Nothing of
// them is ever deleted, so beyond it the broker refuses to start.
const maxAside = 5

// asideMark stands between the store's name and the time of the renaming.
const asideMark = ".damaged-"

// Aside is a damaged store that was renamed.
type Aside struct {
	Path  string // where it is now
	Cause error  // what was wrong with it
}

// damage is the refusal of a damaged file, and which file it was.
type damage struct {
	error

	file os.FileInfo
}

func (d *damage) Unwrap() error { return d.error }

// OpenOrSetAside does what Open does, but renames a damaged store and opens a
// new one in its place. The new one knows nothing of what the old one kept.
func OpenOrSetAside(path string, wall time.Time) (*Store, *Aside, error) {
	s, err := Open(path)
	var d *damage
	if !errors.As(err, &d) {
		return s, nil, err
	}
	aside := &Aside{Cause: err}
	_, asideErr := bounded(path, openTime, func() (_ *Store, err error) {
		aside.Path, err = setAside(path, d.file, wall)
		return nil, err
	})
	if asideErr != nil {
		return nil, nil, fmt.Errorf("%w; setting it aside failed: %w", err, asideErr)
	}
	if s, err = Open(path); err != nil {
		return nil, nil, fmt.Errorf("a damaged store was set aside as %q: %w", aside.Path, err)
	}
	return s, aside, nil
}

// Asides lists the damaged stores that lie beside path.
func Asides(path string) ([]string, error) {
	dir, prefix := filepath.Dir(path), filepath.Base(path)+asideMark
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("looking for damaged stores: %w", err)
	}
	var found []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	return found, nil
}

// setAside renames the file that was found damaged, and no other: between the
// look at it and now a second broker may have put a good one in its place.
func setAside(path string, damaged os.FileInfo, wall time.Time) (to string, err error) {
	found, err := Asides(path)
	if err != nil {
		return "", err
	}
	if len(found) >= maxAside {
		return "", fmt.Errorf("%d damaged stores lie beside it already (%q is one): something damages it again and again; check the disk and move them away", len(found), found[0])
	}
	f, _, err := openFile(path, false, self())
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := lock(f, false); err != nil {
		return "", err
	}
	if info, err := f.Stat(); err != nil || !os.SameFile(info, damaged) {
		return "", fmt.Errorf("%w: it was replaced meanwhile; run: guard broker start", ErrLocked)
	}
	if err := failpoint.Hit("store/before-aside"); err != nil {
		return "", err
	}
	if to, err = renameAside(path, wall); err != nil {
		return "", err
	}
	if err := failpoint.Hit("store/after-aside"); err != nil {
		return "", err
	}
	return to, durable.SyncDir(filepath.Dir(path))
}

// renameAside never takes the place of another file.
func renameAside(path string, wall time.Time) (string, error) {
	base := path + asideMark + wall.UTC().Format("20060102T150405Z")
	for n := 1; ; n++ {
		to := base
		if n > 1 {
			to = fmt.Sprintf("%s-%d", base, n)
		}
		err := unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
		switch {
		case err == nil:
			return to, nil
		case !errors.Is(err, unix.EEXIST) || n > maxAside:
			return "", fmt.Errorf("renaming it to %q: %w", to, err)
		}
	}
}
