package client

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/hookfile"
	"leaseguard.internal/internal/wire"
)

// ReadProject looks for the policy hooks of the project in dir, and nowhere above
// it. Whatever keeps the file from being read, or makes it one that others could
// have written, is told and never an error of ours: the session is launched, and
// the broker lets nothing change in it.
func ReadProject(dir string) (wire.ProjectHooks, []byte) {
	text, err := readProject(dir, true)
	switch {
	case errors.Is(err, unix.ENOENT):
		return wire.ProjectHooks{State: wire.ProjectAbsent}, nil
	case err != nil:
		return wire.ProjectHooks{State: wire.ProjectUnreadable, Why: err.Error()}, nil
	}
	return wire.ProjectHooks{State: wire.ProjectRead}, text
}

// LookAtProject does so for an operator, whose file it need not be. It says only
// that a file is there or not, or why that can't be told.
func LookAtProject(dir string) (wire.ProjectHooks, []byte, error) {
	text, err := readProject(dir, false)
	switch {
	case errors.Is(err, unix.ENOENT):
		return wire.ProjectHooks{State: wire.ProjectAbsent}, nil, nil
	case err != nil:
		return wire.ProjectHooks{}, nil, fmt.Errorf("looking at %s in %q: %w", hookfile.ProjectFile, dir, err)
	}
	return wire.ProjectHooks{State: wire.ProjectRead}, text, nil
}

func readProject(dir string, owned bool) ([]byte, error) {
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, errors.New("the directory is gone")
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(at) }()
	f, info, err := openBelow(at, hookfile.ProjectFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !owned:
	case !ok || st.Uid != 0 && int(st.Uid) != os.Getuid():
		return nil, fmt.Errorf("it belongs to uid %d; want root or uid %d, who launches the session", st.Uid, os.Getuid())
	case info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("others may write it, with mode %04o; run: chmod go-w %s", info.Mode().Perm(), hookfile.ProjectFile)
	}
	text, err := io.ReadAll(io.LimitReader(f, hookfile.MaxFile+1))
	if err == nil && len(text) > hookfile.MaxFile {
		err = errors.New("exceeds 1 MiB")
	}
	return text, err
}
