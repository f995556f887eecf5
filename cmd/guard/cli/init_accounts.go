package cli

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"leaseguard.internal/internal/paths"
	"leaseguard.internal/packaging"
)

// brokerHome is the home of the broker's own user, by which it is told from a
// person of that name.
const brokerHome = "/var/lib/guard"

var systemGroups = []string{paths.SystemUser, paths.GateGroup, paths.OperatorGroup, paths.AuditGroup}

// Files of systemd that make accounts, where a package puts them and where init does.
const (
	packagedAccounts = "/usr/lib/sysusers.d/guard.conf"
	writtenAccounts  = "/etc/sysusers.d/guard.conf"
)

// ids are the numbers of a user and a group.
func ids(owner, group string) (uid, gid uint32, err error) {
	u, err := user.Lookup(owner)
	if err != nil {
		return 0, 0, err
	}
	g, err := user.LookupGroup(group)
	if err != nil {
		return 0, 0, err
	}
	n, err := strconv.ParseUint(u.Uid, 10, 32)
	m, err2 := strconv.ParseUint(g.Gid, 10, 32)
	return uint32(n), uint32(m), errors.Join(err, err2)
}

// haveAccounts says whether the user and the groups are there. Somebody else of
// that name would become the broker, so that is an error.
func haveAccounts() (bool, error) {
	u, err := user.Lookup(paths.SystemUser)
	switch {
	case errors.As(err, new(user.UnknownUserError)):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("looking user %q up: %w", paths.SystemUser, err)
	case u.HomeDir != brokerHome || u.Uid == "0":
		return false, fmt.Errorf("setting up user %q: one with uid %s and home %q is there, and isn't the broker's; rename it, then run this again", paths.SystemUser, u.Uid, u.HomeDir)
	}
	for _, name := range systemGroups {
		switch g, err := user.LookupGroup(name); {
		case errors.As(err, new(user.UnknownGroupError)):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("looking group %q up: %w", name, err)
		case g.Gid == "0":
			return false, fmt.Errorf("setting up group %q: its number is 0, which is root's; remove it, then run this again", name)
		}
	}
	return true, nil
}

// accountSteps make the user and the groups by systemd's own program, or say
// which commands do it elsewhere.
func (c Command) accountSteps() []step {
	make := step{
		what: fmt.Sprintf("user %s, groups %s", paths.SystemUser, strings.Join(systemGroups, ", ")),
		done: haveAccounts,
		do:   makeAccounts,
	}
	if systemProgram("systemd-sysusers") == "" {
		return []step{make}
	}
	return append(c.copySteps(packagedAccounts, writtenAccounts, packaging.Accounts()), make)
}

func makeAccounts() error {
	if systemProgram("systemd-sysusers") != "" {
		return runSystem("systemd-sysusers", "guard.conf")
	}
	return errors.New("making the accounts: there is no systemd-sysusers here; run: " +
		"for g in " + strings.Join(systemGroups, " ") + "; do groupadd --system $g; done; " +
		"useradd --system --gid guard --home-dir " + brokerHome + " --no-create-home --shell /usr/sbin/nologin guard; then this again")
}

// copySteps write a file below /etc where no package has put it below /usr/lib.
// Where one has, a copy that init wrote before would hide it.
func (c Command) copySteps(packaged, written string, text []byte) []step {
	if _, err := os.Lstat(packaged); err != nil {
		return []step{c.fileStep(written, 0o644, append([]byte(mark), text...))}
	}
	return []step{{
		what: fmt.Sprintf("%q in place of %q", packaged, written),
		done: func() (bool, error) { return !marked(written), nil },
		do:   func() error { return os.Remove(written) },
	}}
}
