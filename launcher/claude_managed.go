package launcher

import (
	"fmt"
	"strings"

	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/verdict"
	host "leaseguard.internal/launcher/runtime"
)

// lookManaged reads what the administrator's settings come to. When they hold the
// gate's own hooks, for this very broker, those are what the proof has to meet.
func (c *claude) lookManaged() error {
	c.managed = host.ReadManaged()
	c.effect = host.InEffect(c.managed)
	missing := c.effect.Missing(c.install(""))
	c.held = len(missing) == 0
	if c.Paths.Mode != paths.System {
		return nil
	}
	if len(c.effect.Loose) > 0 {
		f := c.effect.Loose[0]
		return refuse(verdict.WiringUnproved, "relying on", f.File, f.What, "as root: "+f.Next)
	}
	if !c.held && !c.look { // inEffect says it
		why := c.effect.Blame()
		if why != "" {
			why = " (" + why + ")"
		}
		c.Warn(fmt.Sprintf("the managed settings of this machine don't ask the gate on %s%s; this session brings hooks of its own; as root: guard init --system", strings.Join(missing, ", "), why))
	}
	return nil
}

// proofInstall is what the proof brings: where the administrator's settings hold
// the hooks, none, so that only those can ask the gate. The session brings hooks
// all the same. They are silent beside managed ones, and equal entries run once;
// but settings that a service sends to the client put managed files out of
// effect, whatever they say, and files can go: then these are left.
func (c *claude) proofInstall(server string) host.Install {
	in := c.install(server)
	in.Bare = c.held
	return in
}
