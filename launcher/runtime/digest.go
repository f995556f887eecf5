package runtime

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/version"
)

// managedDir is where an administrator's settings of Claude are.
const managedDir = "/etc/claude-code"

// Managed is a settings file of an administrator's, which no launcher can
// override and only a proof can judge.
type Managed struct {
	Path  string
	Data  []byte
	Error string // why it could not be read
}

// ReadManaged reads them all.
func ReadManaged() []Managed { return readManaged(managedDir) }

func readManaged(dir string) []Managed {
	paths := []string{filepath.Join(dir, "managed-settings.json"), filepath.Join(dir, "managed-mcp.json")}
	more, _ := filepath.Glob(filepath.Join(escapeGlob(dir), "managed-settings.d", "*"))
	slices.Sort(more)
	var all []Managed
	for _, path := range append(paths, more...) {
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0) // #nosec G304 -- where the client looks for it
		if os.IsNotExist(err) {
			continue
		}
		m := Managed{Path: path}
		if err == nil {
			m.Data, err = io.ReadAll(io.LimitReader(f, maxSettings))
			f.Close()
		}
		if err != nil {
			m.Error = err.Error()
		}
		all = append(all, m)
	}
	return all
}

// Blames names the managed setting that keeps guard's hooks from running, if
// one is known to.
func Blames(all []Managed) string {
	for _, m := range all {
		var top object
		if json.Unmarshal(m.Data, &top) != nil {
			continue
		}
		for _, key := range []string{"disableAllHooks", "allowManagedHooksOnly"} {
			if string(top[key]) == "true" {
				return m.Path + " has " + key + " = true"
			}
		}
	}
	return ""
}

// Proved is all that a proof depends on: when any of it changes, the client is
// proved again.
type Proved struct {
	Client, Gate Identity
	Args         []string // with a fixed name for guard's MCP server
	Env          []string
	Managed      []Managed
	User         []byte // the user's settings.json
}

// Digest is the proof's name for the broker. Every text is quoted, so that no two
// proofs are written alike.
func (p Proved) Digest() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q\n%#v\n%#v\n%q\n%q\n%q\n", version.Version+" "+Oldest, p.Client, p.Gate, p.Args, p.Env, p.User)
	for _, m := range p.Managed {
		fmt.Fprintf(h, "%q %q %q\n", m.Path, m.Error, m.Data)
	}
	return hex.EncodeToString(h.Sum(nil))
}
