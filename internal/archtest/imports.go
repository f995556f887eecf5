package archtest

import (
	"slices"
	"strings"
)

// ImportRule says what packages below In may import. With Only, an import that
// fits none of its patterns is a finding; one that fits Never always is. A
// pattern is a directory of this module ("broker"), an import path ("os"), or
// either with "/..." for everything below it too; "std" is any package of the
// standard library.
type ImportRule struct {
	In     string // a directory with or without "/...", or "..." for all
	Except []string
	Only   []string
	Never  []string
	Tests  bool // binds tests too
	Why    string
}

// ImportRules are the directions in which this module's packages may depend on
// each other and on others.
var ImportRules = []ImportRule{
	{
		In: "internal/...", Never: []string{"broker/...", "gate/...", "launcher/...", "lint/...", "cmd/..."},
		Why: "internal packages are the ground that the programs stand on; one that knew its users could not be tested or replaced alone",
	},
	{
		In: "broker/...", Never: []string{"launcher/...", "cmd/...", "lint/..."},
		Why: "the broker decides about what a launcher starts, so it must not contain the code that starts it",
	},
	{
		In: "broker/...", Never: []string{"gate"},
		Why: "the broker translates for hosts by gate/dialect; the gate's own program has no part in a decision",
	},
	{
		In: "launcher/...", Never: []string{"broker/...", "gate", "cmd/...", "lint/..."},
		Why: "the launcher becomes the agent by exec, and must carry no lease, token or store code with it",
	},
	{
		In: "lint/...", Never: []string{"broker/...", "launcher/...", "cmd/...", "internal/peer"},
		Why: "the linter runs in CI on foreign code and needs neither a broker nor a process's identity",
	},
	{
		In: "gate", Only: []string{"syscall"},
		Why: "the gate starts for every tool call: each package more costs start time, and it has to be readable in one sitting",
	},
	{
		In: "cmd/guard-gate", Only: []string{"gate"},
		Why: "what the gate's program links is what the gate costs",
	},
	{
		In: "gate/dialect", Only: []string{"std", "internal/strictjson", "internal/verdict", "internal/wire", "github.com/go-json-experiment/json/..."},
		Never: []string{"os", "os/...", "net", "net/...", "syscall", "time", "io/fs", "path/filepath"},
		Why:   "a dialect is a pure translation: the same payload gives the same call on every machine",
	},
	{
		In: "broker/lease", Only: []string{"errors", "fmt", "time", "internal/clock"},
		Why: "the lease machine is pure, so that every state and event can be enumerated by tests",
	},
	{
		In: "broker/token", Only: []string{"std", "broker/lease"}, Never: []string{"os", "os/...", "net", "net/...", "time", "syscall", "log", "log/..."},
		Why: "tokens are minted, hashed and bound without I/O, so that a secret has no way into a file or log from here",
	},
	{
		In: "internal/hookfile", Only: []string{"std", "internal/verdict", "internal/wire", "github.com/go-json-experiment/json/..."},
		Never: []string{"os", "os/...", "net", "net/...", "syscall", "io/fs", "path/filepath"},
		Why:   "what a file of policy hooks means is the same on every machine, for who reads it and for who is told of it",
	},
	{
		In: "packaging", Only: []string{"std"}, Never: []string{"os", "net", "syscall"},
		Why: "packaging is files and their names; who puts them in place is the command line or a package",
	},
	{
		In: "internal/verdict", Only: []string{"std"}, Never: []string{"os", "net", "syscall", "time"},
		Why: "codes and reasons are constants and text",
	},
	{
		In: "...", Except: []string{"broker/store"}, Never: []string{"go.etcd.io/bbolt/..."}, Tests: true,
		Why: "one package knows the store's file format and its commit order",
	},
	{
		In: "...", Except: []string{"cmd/guard/..."}, Never: []string{"github.com/spf13/cobra/...", "github.com/spf13/pflag/..."}, Tests: true,
		Why: "only the command line knows flags",
	},
	{
		In: "...", Except: []string{"internal/config", "launcher/runtime"}, Never: []string{"github.com/pelletier/go-toml/v2/..."}, Tests: true,
		Why: "one decoder of guard.toml checks keys, types and positions; a second one would be less strict. Codex's own files are read as Codex reads them",
	},
	{
		In: "...", Except: []string{"internal/sdunit"}, Never: []string{"github.com/coreos/go-systemd/...", "github.com/godbus/..."}, Tests: true,
		Why: "systemd is optional: one package knows it",
	},
	{
		In: "...", Except: []string{"internal/passphrase"}, Never: []string{"golang.org/x/crypto/..."}, Tests: true,
		Why: "one package hashes passphrases, within its bounds of time and memory; nothing else here needs cryptography of its own",
	},
	{
		In: "...", Except: []string{"internal/recovery"}, Never: []string{"github.com/modelcontextprotocol/go-sdk/..."}, Tests: true,
		Why: "the recovery tool's server speaks to a model; a library for that has no place in programs that decide",
	},
	{
		In: "...", Never: []string{"pgregory.net/rapid/...", "github.com/google/go-cmp/...", "go.uber.org/goleak/...", "github.com/rogpeppe/go-internal/...", "github.com/anishathalye/porcupine/...", "testing", "testing/..."},
		Why: "test libraries have no place in a program",
	},
	{
		In: "...", Never: []string{"plugin", "net/http/pprof", "expvar"},
		Why: "nothing loads code or serves its insides",
	},
	{
		In: "...", Except: []string{"internal/zvmsim"}, Never: []string{"math/rand", "math/rand/v2"},
		Why: "randomness is crypto/rand: no secret can come from a source that can be guessed; only the simulator's delays may",
	},
}

// CheckImports applies the import rules to the files.
func CheckImports(files []File, rules []ImportRule) []Finding {
	var found []Finding
	for _, f := range files {
		for _, r := range rules {
			if f.Test && !r.Tests || !r.binds(f.Dir) {
				continue
			}
			for _, spec := range f.AST.Imports {
				target := strings.Trim(spec.Path.Value, `"`)
				if !r.allows(target) {
					found = append(found, Finding{f.Path, f.line(spec.Pos()), f.Dir + " imports " + target, r.Why})
				}
			}
		}
	}
	return found
}

func (r ImportRule) binds(dir string) bool {
	return matches(r.In, dir) && !slices.ContainsFunc(r.Except, func(p string) bool { return matches(p, dir) })
}

func (r ImportRule) allows(target string) bool {
	fits := func(pattern string) bool {
		if pattern == "std" {
			return !strings.Contains(strings.Split(target, "/")[0], ".")
		}
		dir, ok := local(target)
		return matches(pattern, target) || ok && matches(pattern, dir)
	}
	if slices.ContainsFunc(r.Never, fits) {
		return false
	}
	return r.Only == nil || slices.ContainsFunc(r.Only, fits)
}

// matches compares a directory or import path with a pattern.
func matches(pattern, name string) bool {
	if pattern == "..." {
		return true
	}
	if root, deep := strings.CutSuffix(pattern, "/..."); deep {
		return under(name, root)
	}
	return pattern == name
}
