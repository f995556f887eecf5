package runtime

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/verdict"
)

// Program says how a runtime's native executable is called and where its
// installers put it.
type Program struct {
	Name    string
	Launch  string   // the runtime that it is launched as; empty: Name
	Local   string   // below HOME: where it may be without being in PATH; empty: nowhere
	Beside  []string // patterns, relative to the directories above a shim
	Install string   // the command that gets it

	Oldest, Tested string // the first version that may be launched, and the newest that the whole suite runs with
	Older          string // why one before Oldest is refused

	// Script tells the runtime's own script, where it is one; nil: it is a native
	// program.
	Script func(path string) bool
}

func (p Program) runtime() string { return cmp.Or(p.Launch, p.Name) }

// Search says where to look for a runtime's native executable.
type Search struct {
	Program Program
	Path    string // PATH
	Home    string // HOME
	Self    string // guard's own executable, which a wrapper may be a link to
	File    string // what the user named; nothing else is looked at then
}

// Find looks for the native executable and opens it. A shim is refused with the
// name of the native program: it would stand between the launcher's process and
// the client. What starts guard itself is passed over, so a wrapper of guard's
// may be called claude. No shell is asked what claude means: its files are the
// agent's to write.
func Find(s Search) (*Client, error) {
	if s.File != "" {
		return s.named()
	}
	shim := ""
	for _, dir := range filepath.SplitList(s.Path) {
		if !filepath.IsAbs(dir) {
			continue // what the working directory says is the project's, not the user's
		}
		path := filepath.Join(dir, s.Program.Name)
		switch s.kind(path) {
		case native:
			if shim == "" {
				return s.pin(path)
			}
			return nil, s.refuseShim(shim, path)
		case script:
			if shim == "" {
				shim = path
			}
		default:
		}
	}
	if shim != "" {
		return nil, s.refuseShim(shim, s.behind(shim))
	}
	return s.local()
}

func (s Search) named() (*Client, error) {
	switch s.kind(s.File) {
	case native:
		return s.pin(s.File)
	case absent:
		return nil, refuse(verdict.WiringUnproved, "finding the client", s.File, "there is no such executable file", "name the native program, or "+s.Program.Install)
	default:
		return nil, s.refuseShim(s.File, s.behind(s.File))
	}
}

// local looks where the client's own installer puts it behind a shell alias.
func (s Search) local() (*Client, error) {
	path := filepath.Join(s.Home, s.Program.Local)
	if !filepath.IsAbs(path) || s.Program.Local == "" {
		path = ""
	}
	switch s.kind(path) {
	case native:
		c, err := s.pin(path)
		if err == nil {
			c.Note = fmt.Sprintf("%s is not in PATH; using %s. To choose another one, put its directory into PATH or give --client FILE", s.Program.Name, verdict.Object(path))
		}
		return c, err
	case script:
		return nil, s.refuseShim(path, s.behind(path))
	default:
		where := "PATH"
		if s.Program.Local != "" {
			where += " or ~/" + filepath.Dir(s.Program.Local)
		}
		return nil, refuse(verdict.WiringUnproved, "finding", s.Program.Name, "no executable of that name is in "+where, s.Program.Install+", or give --client FILE")
	}
}

// refuseShim says which file to use instead, if one was found.
func (s Search) refuseShim(shim, real string) error {
	next, cause := "guard launch "+s.Program.runtime()+" --client FILE, with the native program's file", "it is a script that starts the client as another process, which the session would lose"
	if s.Program.Script != nil {
		next, cause = s.Program.Install+", then guard launch "+s.Program.Name+" --client FILE, with the script that it put there",
			"it is not the client's own script, and what it starts would be another process, which the session would lose"
	}
	if real != "" {
		next = "guard launch " + s.Program.runtime() + " --client " + shellWord(real)
	}
	return refuse(verdict.WiringUnproved, "launching", shim, cause, next)
}

// shellWord writes a path so that it can be pasted.
func shellWord(path string) string {
	if path != "" && strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@") == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// behind looks for the native program that a shim starts, in the places where
// installers put it.
func (s Search) behind(shim string) string {
	dirs := []string{}
	if real, err := filepath.EvalSymlinks(shim); err == nil {
		for dir := filepath.Dir(real); dir != "/"; dir = filepath.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	if s.Program.Local != "" {
		dirs = append(dirs, filepath.Join(s.Home, filepath.Dir(s.Program.Local)))
	}
	dirs = append(dirs, filepath.Join(s.Home, ".local", "bin"))
	for _, dir := range dirs {
		var found []string
		for _, pattern := range s.Program.Beside {
			more, _ := filepath.Glob(filepath.Join(escapeGlob(dir), pattern))
			found = append(found, more...)
		}
		for _, path := range append(found, filepath.Join(dir, s.Program.Name)) {
			if filepath.IsAbs(path) && s.kind(path) == native {
				return path
			}
		}
	}
	return ""
}

func escapeGlob(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// kinds of a file that is called as a runtime.
type kind uint8

const (
	absent kind = iota
	native      // an ELF program that isn't guard, or the script that a runtime is
	script      // anything else that can be executed
	own         // starts guard
)

const headBytes = 8 << 10

func (s Search) kind(path string) kind {
	if path == "" {
		return absent
	}
	text, info, err := head(path)
	if err != nil || info.Mode().Perm()&0o111 == 0 {
		return absent
	}
	if self, err := os.Stat(s.Self); err == nil && os.SameFile(self, info) {
		return own
	}
	switch {
	case s.Program.Script != nil && s.Program.Script(path):
		return native
	case s.Program.Script == nil && bytes.HasPrefix(text, []byte("\x7fELF")):
		return native
	case startsGuard(text):
		return own
	}
	return script
}

// startsGuard finds "guard launch" among the words of a script.
func startsGuard(text []byte) bool {
	words := strings.FieldsFunc(string(text), func(r rune) bool { return strings.ContainsRune(" \t\n\"'`;|&()<>", r) })
	for i, w := range words {
		if filepath.Base(w) == "guard" && i+1 < len(words) && words[i+1] == "launch" {
			return true
		}
	}
	return false
}

// head reads the beginning of a regular file; a pipe or device never blocks it.
func head(path string) ([]byte, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0) // #nosec G304 -- what is to be judged is there
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, errors.New("not a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(f, headBytes))
	return text, info, err
}
