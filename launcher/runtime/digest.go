package runtime

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"leaseguard.internal/internal/version"
)

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
