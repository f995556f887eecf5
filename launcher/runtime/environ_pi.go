package runtime

import (
	"slices"
	"strings"
)

// piDropped is what Pi doesn't inherit beside the table for all: whatever node
// and the loader of its extensions read. A user who needs one of them names it in
// session.env_pass.
var piDropped = []string{"NODE_*", "JITI_*"}

// piFixed is what guard sets for every Pi. Both node and the loader of Pi's
// extensions keep compiled code in directories of TMPDIR, and run what they find
// there: whoever may write into them could put other code in the place of Pi's
// or of guard's own extension.
var piFixed = []string{"NODE_DISABLE_COMPILE_CACHE=1", "JITI_FS_CACHE=false"}

// FilterPi takes away what could silence, wrap or replace the gate or Pi. Names
// in pass stay, whatever the tables say.
func FilterPi(env, pass []string) Environment {
	var out Environment
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		switch {
		case isSet(name, piFixed):
		case !slices.Contains(pass, name) && (fits(name, dropped) || fits(name, piDropped)):
			out.Dropped = append(out.Dropped, name)
		default:
			out.Vars = append(out.Vars, v)
		}
	}
	out.Vars = append(out.Vars, piFixed...)
	out.straighten(pass)
	out.Dropped = unique(out.Dropped)
	return out
}

// ProofPi is the environment of Pi's proof: without credentials, proxies and
// what changes from one terminal to the next, and without a look at the network.
func (e Environment) ProofPi() []string {
	return append(e.proved(), "PI_OFFLINE=1", "PI_TELEMETRY=0", "NO_PROXY=127.0.0.1")
}
