package cli

import (
	"fmt"
	"io"

	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/paths"
)

// limit is something that hooks don't close, with what stands in for it. README.md
// has all of them; a test holds the two together.
type limit struct {
	What    string `json:"what"`
	Instead string `json:"instead"`
}

// limits are those that README.md names. A row with here is shown only where it
// says so; the others hold on every machine.
var limits = []struct {
	limit
	here func(*doctor, *config.Config) bool
}{
	{limit{"a runtime started outside the launcher", "guard status doesn't show it, and none of its calls gets a pass; keep the tools' credentials where only sessions have them"}, nil},
	{limit{"what a passed call started and left running", `guard revoke --kill, or session.on_revoke = "kill_tools", ends it`}, nil},
	{limit{"Bash that reaches other machines (ssh, kubectl)", "such a call is protected as a change of this host only; keep keys of other machines out of sessions"}, nil},
	{limit{"in system mode, a working directory that was deleted: the host can't start the gate then, and Codex runs every tool", "the host reports each failed hook; end such a session"},
		func(d *doctor, _ *config.Config) bool { return d.paths.Mode == paths.System }},
	{limit{"in self promotion: a process of the agent's user that was started under a lease and lives on", `lease.promotion = "operator"`},
		func(_ *doctor, c *config.Config) bool { return c.Lease.Promotion == "self" }},
	{limit{"a broker of the agent's own user: reading the ZVM secret and the audit, replacing or tracing the broker", "as root: guard init --system"},
		func(d *doctor, _ *config.Config) bool { return d.paths.Mode == paths.User }},
	{limit{"a session of root or with equal capabilities: everything", "identity.allow_root_sessions = false"},
		func(_ *doctor, c *config.Config) bool { return c.Identity.AllowRootSessions }},
}

// boundary lists the limits that hold here.
func (d *doctor) boundary() {
	cfg := d.config
	if cfg == nil {
		cfg = config.Default()
	}
	for _, l := range limits {
		if l.here == nil || l.here(d, cfg) {
			d.out.Limits = append(d.out.Limits, l.limit)
		}
	}
}

func (c Command) printLimits(w io.Writer, limits []limit) {
	rows := [][]cell{header("NOT CLOSED BY HOOKS", "")}
	for _, l := range limits {
		rows = append(rows, []cell{{text: l.What}}, []cell{{text: "  instead: " + l.Instead}})
	}
	fmt.Fprintln(w)
	c.table(w, rows)
}
