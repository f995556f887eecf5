// Package config reads guard.toml, whole and strictly.
//
// A configuration that is half understood protects half. So an unknown key, a
// key in another case, a wrong type, a value out of range, a key or table given
// twice, and a file that others could have written are all errors, each with
// file, line, key and what to do. A missing file is none: it means the
// defaults, which deny every changing call until a ZVM is named.
//
// The table in keys.go is the one list of keys: the decoder, the defaults and
// the template of `guard init` are made from it, and a test holds
// docs/configuration.md equal to it. Keys whose feature comes in a later
// version are accepted at their default only, so that a file never promises
// what the program doesn't do.
//
// The file is a plain kind of TOML: every key stands below the header of its
// table.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/safepath"
)

// maxFile is the most bytes that guard.toml may have.
const maxFile = 1 << 20

// Config is a checked guard.toml.
type Config struct {
	Path         string // where it was read, absolute; "" when it was missing
	Lease        Lease
	Identity     Identity
	Session      Session
	Launch       Launch
	ZVM          *ZVM // nil: no [zvm], so no checkpoint can be taken
	Checkpoint   Checkpoint
	Tools        []catalog.Entry // accepted by catalog.New
	PolicyServer *PolicyServer   // nil: no policy server is asked
	Hooks        Hooks
	Audit        Audit
	Limits       Limits
}

// Lease is [lease].
type Lease struct {
	TTL       time.Duration // whole seconds
	Promotion string        // operator
	Context   []string      // relative to a session's directory
}

// Identity is [identity].
type Identity struct {
	AllowRootSessions bool
	Operators         []string // system mode: users and %groups that narrow guard-operators
}

// Session is [session].
type Session struct {
	OnRevoke string // leave or kill_tools
	EnvPass  []string
}

// Launch is [launch].
type Launch struct {
	Budget       time.Duration // the gate's deadline
	ProveTimeout time.Duration
	Unproved     string // show
	AllowFlags   []string
	PiExtensions []string // loaded before guard's: absolute paths, and builtin:NAME
	CodexSandbox string   // client or read-only
}

// Checkpoint is [checkpoint].
type Checkpoint struct {
	Self         []string // the VMs that this host is
	SelfNone     bool     // self = "none": built-in tools change without a checkpoint
	SelfReuse    time.Duration
	Timeout      time.Duration
	AcceptStatus []string // names of VPG states
	UnknownVM    string   // ask, deny or allow
	NoVM         string   // ask, deny or allow
	Unlisted     string   // ask, deny or allow
	OnAsk        string   // host or deny
}

// Hooks is [hooks].
type Hooks struct {
	Untrusted string // deny or skip
	Path      string
}

// Audit is [audit].
type Audit struct {
	Keep time.Duration
	Max  int64 // bytes
}

// Limits is [limits].
type Limits struct {
	SessionsPerUID  int
	CallsPerSession int
	Payload         int64 // bytes
}

// Default is the configuration of a missing file.
func Default() *Config {
	c := defaults()
	c.ZVM, c.PolicyServer = nil, nil // there are none before their tables
	return c
}

// defaults has every table.
func defaults() *Config {
	p := &place{c: &Config{ZVM: new(ZVM), PolicyServer: new(PolicyServer)}, tool: new(catalog.Entry)}
	for _, k := range keys {
		if k.def == "" {
			continue
		}
		if err := k.set(p, k.defaultValue()); err != nil {
			panic(fmt.Sprintf("default of %s: %v", k.name, err)) // held by a test
		}
	}
	return p.c
}

// Load reads the file at path for a broker of uid in that mode ("user" or
// "system"). A missing file gives Default, whose Path is empty.
func Load(path, mode string, uid uint32) (*Config, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("loading configuration %q: %w", path, err)
	}
	data, err := safepath.ReadFile(path, uid, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Default(), nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("loading configuration: %w; let the broker's user read it: chmod u+r %q, or go+r where it is root's", err, path)
	}
	if err != nil {
		return nil, fmt.Errorf("loading configuration: %w", err)
	}
	return decode(path, mode, data)
}

// Parse understands text as Load would a file of that path.
func Parse(path, mode string, text []byte) (*Config, error) { return decode(path, mode, text) }
