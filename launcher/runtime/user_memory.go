package runtime

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/verdict"
)

// Bounds of the user's own texts.
const (
	maxMemory  = 1 << 20 // all of it
	maxImports = 5       // how deep one file may import another
	maxFiles   = 256     // in a directory
)

// memory gathers the user's instructions.
type memory struct {
	user *User
	home string
	seen []string // files, without links
	text bytes.Buffer
}

// takeMemory reads the user's instructions for every project: CLAUDE.md and
// rules/, with what they import. The client doesn't read them itself when it is
// told to read no settings.
func (u *User) takeMemory(dir, home string) error {
	m := memory{user: u, home: home}
	files := append([]string{filepath.Join(dir, "CLAUDE.md")}, markdown(filepath.Join(dir, "rules"))...)
	for _, path := range files {
		if err := m.take(path, 0); err != nil {
			return err
		}
	}
	u.Memory = m.text.Bytes()
	return nil
}

// take adds a file, then those that it imports.
func (m *memory) take(path string, depth int) error {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) || slices.Contains(m.seen, real) {
		return nil
	}
	m.seen = append(m.seen, real)
	text, err := readText(path, maxMemory)
	switch {
	case err == nil && m.text.Len()+len(text) > maxMemory:
		err = fmt.Errorf("with what was read before it, it is longer than %d bytes", maxMemory)
	case err != nil && depth > 0: // the user's own text names it, maybe in passing
		return nil
	}
	if err != nil {
		return refuse(verdict.ConfigInvalid, "reading the user's instructions in", path, err.Error(), "correct or move "+shellWord(path))
	}
	fields, body, err := frontMatter(text)
	if err == nil && fields["paths"].given() {
		m.user.Notes = append(m.user.Notes, "not taken over, since it is for some files only: "+verdict.Object(path))
		return nil
	}
	if err != nil {
		body = text
	}
	fmt.Fprintf(&m.text, "# The user's instructions for all projects, from %s\n\n%s\n\n", path, bytes.TrimSpace(body))
	if depth == maxImports {
		return nil
	}
	for _, other := range m.imports(body, filepath.Dir(path)) {
		if err := m.take(other, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// imports are the files that a text names on lines of their own: @path. Lines
// in a block of code are none.
func (m *memory) imports(text []byte, dir string) []string {
	var all []string
	code := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		path, ok := strings.CutPrefix(strings.TrimPrefix(line, "- "), "@")
		if code || !ok || path == "" || strings.ContainsAny(path, " \t") {
			continue
		}
		switch {
		case strings.HasPrefix(path, "~/"):
			path = filepath.Join(m.home, path[2:])
		case !filepath.IsAbs(path):
			path = filepath.Join(dir, path)
		}
		all = append(all, path)
	}
	return all
}

// markdown lists the texts below a directory, which may be a link, in order.
func markdown(dir string) []string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	var all []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fs.SkipDir
		case len(all) == maxFiles:
			return fs.SkipAll
		case !d.IsDir() && filepath.Ext(path) == ".md":
			all = append(all, path)
		}
		return nil
	})
	return all
}

// readText reads a regular file of the user's to a bound. A link is followed, as
// the client does; a pipe or device never blocks it.
func readText(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0) // #nosec G304 -- the user's own text, read as the user
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	return text, err
}
