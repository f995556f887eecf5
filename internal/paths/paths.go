// Package paths says where guard's files are.
//
// The machine is in system mode when /etc/guard/guard.toml exists: then a
// broker of its own user serves everybody, and no variable moves anything.
// Its user and groups are looked up by name: guard (the broker), guard-gate (whose
// group proves the gate), guard-operators and guard-audit.
//
// Otherwise each user has a broker of their own, with files in the places of
// the XDG base directory specification:
//
//	configuration  $XDG_CONFIG_HOME/guard/guard.toml  (~/.config)
//	state          $XDG_STATE_HOME/guard              (~/.local/state)
//	sockets        $XDG_RUNTIME_DIR/guard             (the state's run directory)
//
// A variable with a relative path is an error, not skipped: skipping it would
// put the broker where its user doesn't look.
package paths

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"leaseguard.internal/internal/safepath"
)

// Modes of a machine.
const (
	User   = "user"
	System = "system"
)

// systemConfig is the file whose presence means system mode.
const systemConfig = "/etc/guard/guard.toml"

// maxSocket is the most bytes of a socket's path: sun_path has 108, and the
// last is NUL. A path that were cut could be somebody else's socket.
const maxSocket = 107

// Paths are the places of one broker.
type Paths struct {
	Mode           string // User or System
	Config         string
	StateDir       string
	RunDir         string
	DB             string
	AuditDir       string
	BrokerSocket   string
	OperatorSocket string
	// Lock is held by the one broker whose sockets are in RunDir. In user mode
	// it lies beside them, since who holds it may remove them. In system mode
	// the sockets are the service manager's and their directory root's, so the
	// lock is in the state directory.
	Lock string

	// BrokerUID is whose broker clients trust, beside root's. The groups exist
	// in system mode only, and are NoGID elsewhere.
	BrokerUID   uint32
	GateGID     uint32 // what runs with it was started as the installed gate
	OperatorGID uint32 // may open operator.sock
	AuditGID    uint32 // may read the audit
}

// NoGID is nobody's group.
const NoGID = ^uint32(0)

// Resolve finds the places for the broker of uid. env is asked for variables:
// os.Getenv, or that of somebody else's environment.
func Resolve(env func(string) string, uid uint32) (Paths, error) {
	return resolve(systemConfig, names{UserID, GroupID}, env, uid)
}

func resolve(system string, n names, env func(string) string, uid uint32) (Paths, error) {
	_, err := os.Lstat(system)
	switch {
	case err == nil:
		return systemPaths(system, n)
	case errors.Is(err, fs.ErrNotExist):
		return userPaths(env, uid)
	default:
		// Taking the user's own files here would let whoever hides the
		// system's configuration replace it.
		return Paths{}, fmt.Errorf("finding out whether this machine is in system mode: %w; make %q readable or remove it", err, filepath.Dir(system))
	}
}

// ResolveUser finds the places of uid's own broker, as they are in user mode: in
// system mode those of one from before the machine was switched to it.
func ResolveUser(env func(string) string, uid uint32) (Paths, error) { return userPaths(env, uid) }

func userPaths(env func(string) string, uid uint32) (Paths, error) {
	config, err := base(env, "XDG_CONFIG_HOME", ".config")
	if err != nil {
		return Paths{}, err
	}
	state, err := base(env, "XDG_STATE_HOME", ".local/state")
	if err != nil {
		return Paths{}, err
	}
	state = filepath.Join(state, "guard")
	run, err := runDir(env, state, uid)
	if err != nil {
		return Paths{}, err
	}
	p, err := layout(User, filepath.Join(config, "guard", "guard.toml"), state, run)
	if err != nil {
		return Paths{}, err
	}
	p.BrokerUID, p.GateGID, p.OperatorGID, p.AuditGID = uid, NoGID, NoGID, NoGID
	return p, nil
}

// Private is where a launcher of uid keeps what only its own runtime reads: in
// user mode beside the sockets, in system mode where the user's own sockets
// would be.
func (p Paths) Private(env func(string) string, uid uint32) (string, error) {
	if p.Mode != System {
		return p.RunDir, nil
	}
	own, err := userPaths(env, uid)
	return own.RunDir, err
}

// base is the directory that a variable names, or its default below HOME.
func base(env func(string) string, name, below string) (string, error) {
	if dir := env(name); dir != "" {
		return absolute(name, dir)
	}
	home := env("HOME")
	if home == "" {
		return "", fmt.Errorf("finding the directory of %s: neither it nor HOME is set; set HOME to your home directory", name)
	}
	home, err := absolute("HOME", home)
	return filepath.Join(home, below), err
}

func absolute(name, dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("reading %s: %q is not an absolute path; set it to one that begins with /", name, dir)
	}
	return filepath.Clean(dir), nil
}

// runDir is where the sockets go: below the user's runtime directory, else in
// the state directory. A directory in /tmp may be waiting there for us, made by
// somebody else, so guard never chooses one below a world-writable directory.
func runDir(env func(string) string, state string, uid uint32) (string, error) {
	const name = "XDG_RUNTIME_DIR"
	if env(name) == "" {
		switch open := worldWritable(state); open {
		case "":
		case state:
			return "", fmt.Errorf("choosing a directory for sockets: %s is not set, and everybody may write %q; run: chmod go-w %q", name, state, state)
		default:
			return "", fmt.Errorf("choosing a directory for sockets: %s is not set, and %q is below %q, which everybody may write; set %s to a directory of your own with mode 0700", name, state, open, name)
		}
		return filepath.Join(state, "run"), nil
	}
	dir, err := absolute(name, env(name))
	if err != nil {
		return "", err
	}
	// One that can't be seen is left to EnsureDir, which makes it or says why not.
	if info, err := os.Stat(dir); err == nil && !owned(info, uid) {
		return "", fmt.Errorf("reading %s: %q belongs to another user than uid %d; unset it, or set it to a directory of your own with mode 0700", name, dir, uid)
	}
	return filepath.Join(dir, "guard"), nil
}

func owned(info fs.FileInfo, uid uint32) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || st.Uid == uid)
}

// worldWritable is the first directory at or above path that everybody may
// write, or "". What isn't there yet is made with mode 0700.
func worldWritable(path string) string {
	for dir := path; ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o002 != 0 {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

func layout(mode, config, state, run string) (Paths, error) {
	p := Paths{
		Mode:           mode,
		Config:         config,
		StateDir:       state,
		RunDir:         run,
		DB:             filepath.Join(state, "guard.db"),
		AuditDir:       filepath.Join(state, "audit"),
		BrokerSocket:   filepath.Join(run, "broker.sock"),
		OperatorSocket: filepath.Join(run, "operator.sock"),
		Lock:           filepath.Join(run, "broker.lock"),
	}
	for _, socket := range []string{p.BrokerSocket, p.OperatorSocket} {
		if n := len(socket); n > maxSocket {
			return Paths{}, fmt.Errorf("placing socket %q: its path has %d bytes, the limit is %d; set XDG_RUNTIME_DIR to a shorter directory", socket, n, maxSocket)
		}
		if strings.ContainsRune(socket, 0) {
			return Paths{}, fmt.Errorf("placing socket %q: its path contains a NUL byte; set XDG_RUNTIME_DIR to another directory", socket)
		}
	}
	return p, nil
}

// EnsureDir makes a directory, with mode 0700 for all that is missing, and
// tests that nobody but root and uid may change it.
func EnsureDir(path string, uid uint32) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("making directory %q: %w; make it yourself with mode 0700, or choose another by the XDG variables", path, err)
	}
	return safepath.Dir(path, uid)
}
