// Package launcher turns its own process into a session's runtime: it registers
// the process with the broker as the session's anchor and then execs the
// runtime in its place. The pid stays, so the anchor, the terminal, signals and
// the exit status are the runtime's own; nothing of guard is left in between.
//
// The registration's connection is close-on-exec and open until then: its end,
// while the process lives, tells the broker that the runtime runs. The process
// becomes a child subreaper, so that orphans stay below the anchor, and hands on
// no secret and no file descriptor but 0 to 2 and, for Pi, its sealed extension: a
// session's id and generation stand in the environment as a cross-check that can
// only refuse.
//
// It doesn't stop a process from starting a runtime without it: that is what
// guard-lint and the runtime's own managed settings are for.
package launcher

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/runtimes"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// Launch says what to launch. Argv is the runtime's, byte for byte; Env is
// filtered before it is handed on.
type Launch struct {
	Paths  paths.Paths
	Argv   []string
	Env    []string
	Resume string               // session id whose next generation this is
	Warn   func(warning string) // what the broker wants people to know
}

// Exec registers this process and becomes Argv. It returns only when it could
// not: a refusal is a *wire.Error. After a registration the caller must end its
// process, whose session ends with it.
func Exec(ctx context.Context, l Launch) error {
	path, err := command(l.Argv)
	if err != nil {
		return err
	}
	res, conn, err := l.register(ctx, wire.Register{Runtime: runtimes.Exec, Command: path})
	if err != nil {
		return err
	}
	err = become(path, l.Argv, environ(l.Env, *res.Session))
	runtime.KeepAlive(conn) // a finalizer would tell the broker that the runtime runs
	return err
}

// register makes this process the anchor of a session, with a broker that is
// started if none runs. Its orphans stay below it from then on.
func (l Launch) register(ctx context.Context, reg wire.Register) (wire.Result, net.Conn, error) {
	dir, err := workingDir()
	if err != nil {
		return wire.Result{}, nil, err
	}
	err = client.EnsureBroker(ctx, l.Paths)
	if errors.Is(err, client.ErrInsideSession) {
		err = &wire.Error{Code: string(verdict.NestedLaunch), Message: err.Error()}
	}
	if err != nil {
		return wire.Result{}, nil, err
	}
	// Not before: a broker that was started is to be nobody's orphan of ours.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return wire.Result{}, nil, fmt.Errorf("becoming the reaper of the session's orphans: %w", err)
	}
	reg.Resume, reg.Dir, reg.Command = l.Resume, dir, strings.ToValidUTF8(reg.Command, "?")
	var project []byte
	reg.Hooks, project = client.ReadProject(dir)
	res, conn, err := client.Register(ctx, l.Paths, reg, project)
	if err != nil {
		return wire.Result{}, nil, err
	}
	for _, w := range res.Warnings {
		l.Warn(w)
	}
	return res, conn, nil
}

// command finds the program that argv names and refuses the runtimes, which
// have launches of their own.
func command(argv []string) (string, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return "", fmt.Errorf("finding the command %s: %w; %s", verdict.Object(argv[0]), cause(err), findRemedy(argv[0], err))
	}
	name, is := runtimes.Known(path)
	if !is {
		return path, nil
	}
	return "", &wire.Error{Code: string(verdict.FlagRefused), Message: verdict.Reason(verdict.FlagRefused,
		"command", verdict.Object(path),
		"it is the runtime "+name+" or a shim of it, and an exec session would run it without its hooks",
		launchRemedy(name))}
}

// workingDir asks the kernel, not $PWD: the directory that context documents
// are relative to has one name, without links.
func workingDir() (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Getcwd(buf)
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w; change to one that exists", err)
	}
	dir := string(buf[:n-1])
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("finding the working directory: %s can't be reached from the root; change to one that can", verdict.Object(dir))
	}
	return dir, nil
}

// environ is the runtime's environment: ours without what speaks of guard or of
// a service manager, plus the session's id and generation.
func environ(env []string, s wire.Session) []string {
	kept := make([]string, 0, len(env)+2)
	for _, v := range env {
		if strings.HasPrefix(v, "GUARD_") || strings.HasPrefix(v, "LISTEN_") || strings.HasPrefix(v, "NOTIFY_SOCKET=") {
			continue
		}
		kept = append(kept, v)
	}
	return append(kept, "GUARD_SESSION="+s.ID, fmt.Sprintf("GUARD_GENERATION=%d", s.Generation))
}

// become is the point of no return: what it changes of the process is the
// runtime's from here on.
func become(path string, argv, env []string, keep ...sealed) error {
	if err := client.CloseOnExec(); err != nil {
		return err
	}
	for _, s := range keep {
		if err := s.hand(); err != nil {
			return err
		}
	}
	err := syscall.Exec(path, argv, env) // #nosec G204 -- launching is the purpose
	if errors.Is(err, unix.E2BIG) {
		return tooLong(path, argv, env)
	}
	return fmt.Errorf("executing %s: %w", verdict.Object(path), err)
}
