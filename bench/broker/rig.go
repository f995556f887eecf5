package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/clock"
)

// settings let root measure, and one session make as many calls as there are
// clients.
const settings = `[identity]
allow_root_sessions = true
[checkpoint]
self = "app-01"
[limits]
calls_per_session = 256
`

// rig is the directory and the processes of a run.
type rig struct {
	dir, memory string // on a disk; in memory
	self        string // this program
	stops       []func() error
}

// newRig puts the programs where brokers look for each other: the real broker
// and the stubbed one, each beside this program as its gate.
func newRig(program string) (_ *rig, err error) {
	r := &rig{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if r.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if r.dir, err = r.temp("", false); err != nil {
		return nil, err
	}
	if r.memory, err = r.temp("/dev/shm", true); err != nil {
		return nil, err
	}
	for to, from := range map[string]string{
		"real/guard-broker": program, "real/guard-gate": r.self, "stub/guard-broker": r.self, "stub/guard-gate": r.self,
	} {
		if err := copyProgram(filepath.Join(r.dir, to), from); err != nil {
			return nil, fmt.Errorf("installing %s: %w; run make build", to, err)
		}
	}
	return r, nil
}

// temp makes a directory that is, or isn't, in memory.
func (r *rig) temp(parent string, memory bool) (string, error) {
	dir, err := os.MkdirTemp(parent, "bench-")
	if err != nil {
		return "", err
	}
	r.stops = append(r.stops, func() error { return os.RemoveAll(dir) })
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return "", fmt.Errorf("looking at the file system of %q: %w", dir, err)
	}
	if (fs.Type == unix.TMPFS_MAGIC) != memory {
		return "", fmt.Errorf("directory %q: in memory is %v, want %v; set TMPDIR to a directory on a disk, and have a tmpfs at /dev/shm", dir, !memory, memory)
	}
	return dir, nil
}

func copyProgram(to, from string) error {
	b, err := os.ReadFile(from) //nolint:gosec // a program of ours
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o700) //nolint:gosec // it is to be executed
}

// close ends what was started, newest first.
func (r *rig) close() error {
	var errs []error
	for i := len(r.stops) - 1; i >= 0; i-- {
		errs = append(errs, r.stops[i]())
	}
	r.stops = nil
	return errors.Join(errs...)
}

// home is one broker's surroundings.
type home struct {
	env    []string
	broker int // pid
}

// newHome makes the directories of one broker below parent.
func (r *rig) newHome(parent string) (home, error) {
	dir, err := os.MkdirTemp(parent, "home-")
	if err != nil {
		return home{}, err
	}
	h := home{env: []string{"HOME=" + dir, "PATH=/usr/bin:/bin"}}
	for _, d := range []string{"config", "state", "run"} {
		if err := os.MkdirAll(filepath.Join(dir, d, "guard"), 0o700); err != nil {
			return home{}, err
		}
	}
	h.env = append(h.env, "XDG_CONFIG_HOME="+dir+"/config", "XDG_STATE_HOME="+dir+"/state", "XDG_RUNTIME_DIR="+dir+"/run")
	return h, os.WriteFile(filepath.Join(dir, "config/guard/guard.toml"), []byte(settings), 0o600)
}

// get is the home's environment.
func (h home) get(name string) string {
	for _, v := range h.env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

func (h home) socket() string { return filepath.Join(h.get("XDG_RUNTIME_DIR"), "guard", "broker.sock") }

// child is a process of the run.
type child struct {
	pid   int
	stdin io.WriteCloser
}

// start runs a program until its stdin ends, and longer until it obeys SIGTERM.
func (r *rig) start(h home, stdout io.Writer, argv ...string) (child, error) {
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:gosec // programs of ours
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = h.env, r.dir, stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if filepath.Base(argv[0]) == "guard-broker" {
		cmd.Stderr = nil // its log
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return child{}, err
	}
	if err := cmd.Start(); err != nil {
		return child{}, err
	}
	r.stops = append(r.stops, func() error {
		_ = stdin.Close()
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended with its stdin
		_ = cmd.Wait()                          // by whatever way it ends, it has measured by now
		return nil
	})
	return child{cmd.Process.Pid, stdin}, nil
}

// eventually waits for a thing that another process does.
func eventually(what string, done func() error) error {
	end := now().Add(10 * time.Second)
	for {
		err := done()
		if err == nil {
			return nil
		}
		if now() > end {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
		_ = clock.Sleep(context.Background(), 10*time.Millisecond) // nothing ends it early
	}
}
