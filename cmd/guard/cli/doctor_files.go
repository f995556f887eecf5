package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/safepath"
	"leaseguard.internal/internal/verdict"
)

// programs looks at guard's own: who may change them, and, in system mode, the
// group by which the gate is known.
func (d *doctor) programs() {
	p, err := client.Siblings()
	if err != nil {
		d.fail("programs", saidOnce(err), "put guard, guard-broker and guard-gate into one directory")
		return
	}
	good := true
	for _, path := range []string{p.Guard, p.Broker, p.Gate} {
		if err := safepath.File(path, d.paths.BrokerUID); err != nil {
			good = false
			text, fix := remedyOf(err, "put guard's programs together into a directory that only root may write")
			d.fail("programs", text, fix)
		}
	}
	if d.paths.Mode == paths.System {
		good = d.gateGroup(p.Gate) && good
	}
	if good {
		d.ok("programs", fmt.Sprintf("%s: nobody but root and uid %d may change guard, guard-broker and guard-gate", verdict.Object(filepath.Dir(p.Gate)), d.paths.BrokerUID))
	}
}

// gateGroup wants the bit and the group by which a broker of another user knows
// the gate.
func (d *doctor) gateGroup(gate string) bool {
	st, err := statOf(gate)
	if err == nil && st.Gid == d.paths.GateGID && st.Mode&syscall.S_ISGID != 0 {
		return true
	}
	text := fmt.Sprintf("%s has not the group %s and its set-group-id bit, so that no event counts as the host's own", verdict.Object(gate), paths.GateGroup)
	if err != nil {
		text = saidOnce(err)
	}
	d.fail("programs", text, fmt.Sprintf("chown root:%s %q && chmod 2755 %q", paths.GateGroup, gate, gate))
	return false
}

func statOf(path string) (*syscall.Stat_t, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, fmt.Errorf("looking at %s: it has no owner", verdict.Object(path))
	}
	return st, nil
}

// remedyOf splits the command that an error ends with from what is wrong.
func remedyOf(err error, otherwise string) (text, fix string) {
	text = saidOnce(err)
	for _, mark := range []string{". Next: ", "; run: ", ": run: "} {
		if before, after, found := strings.Cut(text, mark); found {
			return before, after
		}
	}
	return text, otherwise
}

// configuration looks at guard.toml and the files that it names, as far as this
// user may read them.
func (d *doctor) configuration() {
	cfg, err := config.Load(d.paths.Config, d.paths.Mode, d.paths.BrokerUID)
	switch {
	case err != nil:
		err = &client.ConfigError{Err: err} // which is said line by line
	case d.paths.Mode == paths.User: // in system mode the broker alone reads the secrets, and tells of them below
		err = client.CheckConfig(d.paths)
	}
	if err != nil {
		for _, line := range saidBy(err) {
			text, fix := remedyOf(errors.New(line), "correct "+verdict.Object(d.paths.Config)+", then: "+reload(d.paths.Mode))
			d.fail("config", text, fix)
		}
		if cfg == nil {
			return
		}
	}
	d.config = cfg
	d.out.EnvPass = append(d.out.EnvPass, cfg.Session.EnvPass...)
	if cfg.Path == "" {
		d.warned("config", "there is no "+verdict.Object(d.paths.Config)+": defaults are in force", "guard init")
	}
	d.inForce()
	d.judgeConfig(cfg)
}

// inForce holds what the broker has loaded against what stands there.
func (d *doctor) inForce() {
	if d.status == nil {
		if d.config.Path != "" {
			d.ok("config", verdict.Object(d.config.Path)+" can be loaded")
		}
		return
	}
	b := d.status.Broker
	if b.ConfigError != "" {
		d.fail("config", "an older "+verdict.Object(b.Config)+" is in force, since the new one is refused: "+verdict.Clean(b.ConfigError), "correct it, then: "+reload(b.Mode))
		return
	}
	text, fix, _ := strings.Cut(d.configText(b), ". Next: ")
	switch {
	case fix != "" && d.config.Path != "":
		d.warned("config", text, fix)
	case d.config.Path != "":
		d.ok("config", text+" is in force")
	}
}

// judgeConfig finds what is allowed and does less than people may think.
func (d *doctor) judgeConfig(cfg *config.Config) {
	edit := verdict.Object(d.paths.Config) + ", then: " + reload(d.paths.Mode)
	c := cfg.Checkpoint
	switch {
	case cfg.ZVM == nil && !c.SelfNone:
		d.fail("config", "there is no [zvm], so that no change can pass: no checkpoint can be taken", `guard init --force with --zvm-url and its companions (guard init --help), or --self none for a host that is no machine of Zerto's`)
	case len(c.Self) == 0 && !c.SelfNone:
		d.fail("config", "checkpoint.self is not set, so that every change by a host's own tools is denied", `set checkpoint.self = "VM" in `+edit)
	case c.SelfNone:
		d.warned("config", `checkpoint.self = "none": the hosts' own tools (Bash, Edit, …) change this machine without a checkpoint`, `if this host is a machine of Zerto's: set checkpoint.self = "VM" in `+edit)
	}
	for _, policy := range []struct{ key, value string }{{"unlisted", c.Unlisted}, {"no_vm", c.NoVM}, {"unknown_vm", c.UnknownVM}} {
		if policy.value == "allow" {
			d.warned("config", "checkpoint."+policy.key+` = "allow": such calls pass on a lease alone, without a checkpoint`, "set checkpoint."+policy.key+` = "ask" in `+edit)
		}
	}
	if cfg.Identity.AllowRootSessions {
		d.warned("config", "identity.allow_root_sessions = true: nothing is enforced against a session of root", "set identity.allow_root_sessions = false in "+edit)
	}
	if cfg.Lease.Promotion == "self" {
		d.warned("config", `lease.promotion = "self": an agent verifies itself, and a process of its uid that was started under a lease lives on`, `set lease.promotion = "operator" in `+edit)
	}
}

// sockets looks at the two sockets and their directory.
func (d *doctor) sockets() {
	if err := safepath.Dir(d.paths.RunDir, d.paths.BrokerUID); err != nil {
		if errors.Is(err, fs.ErrNotExist) && d.status == nil {
			return // the broker makes it
		}
		text, fix := remedyOf(err, restart(d.paths.Mode))
		d.fail("sockets", text, fix)
		return
	}
	want := map[string]uint32{d.paths.BrokerSocket: 0o600, d.paths.OperatorSocket: 0o600}
	if d.paths.Mode == paths.System {
		want = map[string]uint32{d.paths.BrokerSocket: 0o666, d.paths.OperatorSocket: 0o660}
	}
	good := true
	for _, path := range []string{d.paths.BrokerSocket, d.paths.OperatorSocket} {
		st, err := statOf(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && d.status == nil:
			return
		case err != nil:
			d.fail("sockets", saidOnce(err), restart(d.paths.Mode))
		case st.Mode&syscall.S_IFMT != syscall.S_IFSOCK || st.Uid != 0 && st.Uid != d.paths.BrokerUID:
			d.fail("sockets", fmt.Sprintf("%s is no socket of uid %d", verdict.Object(path), d.paths.BrokerUID), restart(d.paths.Mode))
		case st.Mode&0o777 != want[path] || d.paths.Mode == paths.System && path == d.paths.OperatorSocket && st.Gid != d.paths.OperatorGID:
			d.fail("sockets", fmt.Sprintf("%s has mode %04o and group %d", verdict.Object(path), st.Mode&0o777, st.Gid), d.socketFix(path, want[path]))
		default:
			continue
		}
		good = false
	}
	if good {
		d.ok("sockets", verdict.Object(d.paths.RunDir))
	}
}

func (d *doctor) socketFix(path string, mode uint32) string {
	if d.paths.Mode == paths.System {
		return "systemctl restart guard-broker.socket guard-operator.socket"
	}
	return fmt.Sprintf("chmod %04o %q", mode, path)
}
