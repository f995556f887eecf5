// Package runtimes knows the agent programs that leaseguard launches by name:
// claude, claudex, pi and codex, as native binaries, as npm packages, as links
// and as shell shims.
//
// `guard launch exec` refuses them, since an exec session has no hooks of its
// own to gate them; the broker uses the same test to see a second runtime below
// an anchor. It works by names, links and the text of shims. Whoever copies a
// native binary under another name gets past it: it stops mistakes, and the
// lease stops the rest.
package runtimes

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// shimBytes is how much of a script is read to see whether it is a shim.
const shimBytes = 8 << 10

// maxLinks is the kernel's own limit of links in one look-up.
const maxLinks = 40

var names = []string{"claude", "claudex", "pi", "codex"}

// packages are parts of a path that tell a runtime whatever its file is called:
// the native installer names the file by its version, npm by its entry script.
var packages = []struct{ part, name string }{
	{"/@anthropic-ai/claude-code", "claude"},
	{"/share/claude/versions/", "claude"},
	{"/@openai/codex", "codex"},
	{"/@earendil-works/pi-coding-agent/", "pi"},
	{"/@mariozechner/pi-coding-agent/", "pi"},
}

// Pi is the runtime whose gate a part of guard's asks, inside of its process.
const Pi = "pi"

// Exec is the runtime of any other command: one that calls the gate itself.
const Exec = "exec"

// Valid reports whether a session may have this runtime.
func Valid(runtime string) bool { return runtime == Exec || slices.Contains(names, runtime) }

// Known reports which runtime the program at path is, or is a shim of. A path
// that can't be read is judged by its name alone.
func Known(path string) (name string, is bool) {
	path = strings.TrimSuffix(path, " (deleted)") // as /proc/PID/exe says after an update
	if name, is = byLinks(path); is {
		return name, true
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		if name, is = byPath(real); is {
			return name, true
		}
	}
	return byText(path)
}

// Named reports which runtime a name or path is of, by itself: nothing is looked
// up. It is for what can't be read, such as another user's programs.
func Named(path string) (name string, is bool) { return byPath(strings.TrimSuffix(path, " (deleted)")) }

// byLinks judges path and each link that it leads through: what a link is
// called says as much as what it points to.
func byLinks(path string) (string, bool) {
	for range maxLinks {
		if name, is := byPath(path); is {
			return name, true
		}
		target, err := os.Readlink(path)
		if err != nil {
			return "", false
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return "", false
}

// byPath judges a path by its last name and by the packages that it lies in.
func byPath(path string) (string, bool) {
	base := strings.TrimSuffix(filepath.Base(path), ".exe")
	for _, name := range names {
		rest, ok := strings.CutPrefix(base, name)
		if ok && (rest == "" || isTarget(rest)) {
			return name, true
		}
	}
	for _, p := range packages {
		if strings.Contains("/"+path, p.part) {
			return p.name, true
		}
	}
	return "", false
}

// isTarget reports whether a file name goes on with a build target, as in
// codex-x86_64-unknown-linux-musl or claude-linux-x64.
func isTarget(rest string) bool {
	for _, t := range []string{"-x86_64-", "-aarch64-", "-linux-"} {
		if strings.HasPrefix(rest, t) {
			return true
		}
	}
	return false
}

// byText finds a runtime in the lines of a script that hand on the script's own
// arguments: that is what makes it a shim and not a program that talks about one.
func byText(path string) (string, bool) {
	text := head(path)
	if !bytes.HasPrefix(text, []byte("#!")) {
		return "", false
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || !handsOn(line) {
			continue
		}
		words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\"'`;|&()<>", r) })
		for _, word := range words {
			if name, is := byPath(word); is {
				return name, true
			}
		}
	}
	return "", false
}

func handsOn(line string) bool {
	return strings.Contains(line, "$@") || strings.Contains(line, "${@") || strings.Contains(line, "$*")
}

// head returns the first bytes of a regular file; a FIFO or device gives none
// and never blocks.
func head(path string) []byte {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // #nosec G304 -- what is to be judged is there
	if err != nil {
		return nil
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(f, shimBytes))
	if err != nil {
		return nil
	}
	return text
}
