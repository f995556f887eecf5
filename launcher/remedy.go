package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/verdict"
	host "leaseguard.internal/launcher/runtime"
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

// tooLong says which of the kernel's limits stood against an execution: that of
// one text, or that of all together.
func tooLong(path string, argv, env []string) error {
	sum := 0
	for i, text := range slices.Concat(argv, env) {
		if len(text) > host.MaxArgument {
			what := fmt.Sprintf("argument %d", i)
			if i >= len(argv) {
				name, _, _ := strings.Cut(text, "=")
				what = "the variable " + verdict.Object(name)
			}
			return refuse(verdict.LimitReached, "executing", path, fmt.Sprintf("%s has %d bytes, and the kernel takes %d in one", what, len(text), host.MaxArgument), "give that text in a file")
		}
		sum += len(text) + 1
	}
	most := "a quarter of the stack's limit"
	var stack unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_STACK, &stack) == nil && stack.Cur < 1<<40 {
		most = fmt.Sprintf("%d, a quarter of the stack's limit", stack.Cur/4)
	}
	return refuse(verdict.LimitReached, "executing", path,
		fmt.Sprintf("its %d arguments and %d variables have %d bytes, and the kernel takes %s, less 8 for each of them", len(argv), len(env), sum, most),
		"give long texts in files, or raise the limit before the launch: ulimit -s 24576")
}

// launchRemedy is the launch of a runtime that exec refuses, where there is one.
func launchRemedy(runtime string) string {
	if _, ok := agents[runtime]; ok {
		return "guard launch " + runtime
	}
	return runtime + " can't be launched in this version; launch another agent"
}
