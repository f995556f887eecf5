package runtime

import (
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/safepath"
	"leaseguard.internal/internal/verdict"
)

// Codex runs each hook as SHELL -c COMMAND, with the login shell of its user as
// the system knows it, whatever $SHELL says: bash and zsh as they are, and for
// any other the first bash in PATH. What such a shell does is all that stands
// between the client and the gate.

// CodexShell judges that shell and gives the variables that keep it from reading
// files of its user's. login is the shell in the user's entry of the system.
func CodexShell(login, path string) (vars []string, err error) {
	if name := filepath.Base(login); unix.Access(login, unix.X_OK) == nil && (name == "bash" || name == "zsh") {
		if name == "zsh" {
			// zsh -c reads .zshenv too, which the agent may write: from here there
			// is none.
			vars = []string{"ZDOTDIR=/dev/null"}
		}
		return vars, rootsOwn(login)
	}
	for _, dir := range filepath.SplitList(path) {
		bash := filepath.Join(dir, "bash")
		switch {
		case !filepath.IsAbs(dir):
			return nil, refuse(verdict.WiringUnproved, "looking for the shell that runs hooks in", dir, "that part of PATH is relative: bash would be looked for in the project", "take it out of PATH, or: chsh -s /bin/bash")
		case unix.Access(bash, unix.X_OK) == nil:
			return nil, rootsOwn(bash)
		}
		if err := safepath.Dir(existing(dir), 0); err != nil {
			return nil, refuse(verdict.WiringUnproved, "looking for the shell that runs hooks in", dir,
				"a bash that is put there would answer in the gate's place: "+err.Error(), "put that part of PATH behind /usr/bin, or: chsh -s /bin/bash")
		}
	}
	return nil, refuse(verdict.WiringUnproved, "looking for the shell that runs hooks,", "bash", "it is neither the login shell nor in PATH", "install bash, then: chsh -s /bin/bash")
}

// existing is a directory, or the nearest one above it that is there: who may
// write that may make it.
func existing(dir string) string {
	for unix.Access(dir, unix.F_OK) != nil && dir != "/" {
		dir = filepath.Dir(dir)
	}
	return dir
}

// rootsOwn refuses a shell that others than root could replace.
func rootsOwn(shell string) error {
	if err := safepath.File(shell, 0); err != nil {
		return refuse(verdict.WiringUnproved, "looking at the shell that runs hooks,", shell, err.Error(), "chsh -s /bin/bash")
	}
	return nil
}

// LoginShell finds the shell of a user in the text of a passwd file, which is all
// that the client itself asks.
func LoginShell(passwd, uid string) string {
	for line := range strings.Lines(passwd) {
		if fields := strings.Split(strings.TrimRight(line, "\n"), ":"); len(fields) == 7 && fields[2] == uid {
			return fields[6]
		}
	}
	return ""
}
