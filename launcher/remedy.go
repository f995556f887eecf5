package launcher

import (
	"errors"
	"io/fs"
	"os/exec"
	"strings"

	"leaseguard.internal/internal/verdict"
)

// cause is what LookPath found, without the path, which stands before it.
func cause(err error) error {
	if found, ok := errors.AsType[*exec.Error](err); ok {
		return found.Err
	}
	return err
}

// findRemedy says what to do about a command that LookPath didn't find.
func findRemedy(command string, err error) string {
	switch {
	case !strings.Contains(command, "/"):
		return "give its path"
	case errors.Is(err, fs.ErrPermission):
		return "make it executable: chmod +x " + verdict.Object(command)
	}
	return "check the path"
}

// launchRemedy is the launch of a runtime that exec refuses, where there is one.
func launchRemedy(runtime string) string {
	if runtime == "claude" {
		return "guard launch claude"
	}
	return runtime + " can't be launched in this version; launch another agent"
}
