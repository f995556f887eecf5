package paths

import (
	"fmt"
	"os/user"
	"path/filepath"
	"strconv"
)

// Accounts of system mode. The broker runs as SystemUser.
const (
	SystemUser    = "guard"
	GateGroup     = "guard-gate"
	OperatorGroup = "guard-operators"
	AuditGroup    = "guard-audit"
)

// names finds ids of users and groups.
type names struct {
	user, group func(name string) (uint32, error)
}

// UserID is the number of a user of this machine.
func UserID(name string) (uint32, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, err
	}
	return parseID(u.Uid)
}

// GroupID is the number of a group of this machine.
func GroupID(name string) (uint32, error) {
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, err
	}
	return parseID(g.Gid)
}

func parseID(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err
}

// systemPaths are the places of the one broker of a machine in system mode. A
// user or group that is missing is an error also for who doesn't need it: the
// installation is half done then.
func systemPaths(config string, n names) (Paths, error) {
	p, err := layout(System, config, "/var/lib/guard", "/run/guard")
	if err != nil {
		return Paths{}, err
	}
	p.Lock = filepath.Join(p.StateDir, "broker.lock")
	if p.BrokerUID, err = n.user(SystemUser); err != nil {
		return Paths{}, incomplete(config, "user", SystemUser, err)
	}
	for _, g := range []struct {
		name string
		gid  *uint32
	}{{GateGroup, &p.GateGID}, {OperatorGroup, &p.OperatorGID}, {AuditGroup, &p.AuditGID}} {
		if *g.gid, err = n.group(g.name); err != nil {
			return Paths{}, incomplete(config, "group", g.name, err)
		}
		if *g.gid == 0 { // each process of root has that group
			return Paths{}, incomplete(config, "group", g.name, fmt.Errorf("its number is 0, which is root's group"))
		}
	}
	return p, nil
}

func incomplete(config, kind, name string, err error) error {
	return fmt.Errorf("finding %s %q of system mode, which %q switches on: %w; create it with: systemd-sysusers, or set guard up again with: guard init --system", kind, name, config, err)
}
