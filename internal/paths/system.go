package paths

import (
	"fmt"
	"os"
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

// Managed says whether systemd runs this machine: it makes this directory early
// as PID 1, and nobody else does.
func Managed() bool {
	_, err := os.Lstat("/run/systemd/system")
	return err == nil
}

// Manual is where a document is that a message names: a package's, or that of the
// sources.
func Manual(name string) string {
	const installed = "/usr/share/doc/leaseguard/"
	if _, err := os.Lstat(installed + name); err == nil {
		return installed + name
	}
	return "docs/" + name
}

// StartService says where the broker of a machine in system mode has said why it
// doesn't run, and how it is started, also where the service manager has given it
// up.
func StartService() string {
	if !Managed() {
		return "start it as " + Manual("install.md") + " says under \"Without systemd\", since systemd doesn't run this machine"
	}
	return "read what it said: journalctl -u guard-broker; start it: systemctl reset-failed guard-broker.service guard-broker.socket guard-operator.socket; " +
		"systemctl start guard-broker.socket guard-operator.socket"
}

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
