package config

import (
	"fmt"
	"regexp"
	"sync"

	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/verdict"
)

// account is a name as systemd and shadow allow it, or a group's with % before it.
var account = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^%?[A-Za-z_][A-Za-z0-9_.-]{0,254}\$?$`) })

// accounts reads names of users and %groups. Whether this machine has them is
// asked by who needs their numbers.
func (v value) accounts() ([]string, error) {
	list, err := v.strings()
	for _, name := range list {
		if !account().MatchString(name) {
			return nil, fmt.Errorf(`%s is no name of a user, nor of a group with %% before it; write such as "ann" or "%%wheel"`, verdict.Object(name))
		}
	}
	return list, err
}

// checkIdentity refuses what would look as if it did something.
func (d *document) checkIdentity(i Identity, mode string) {
	if mode != paths.System && len(i.Operators) > 0 {
		d.fault(d.table("identity").lineOf("operators"), "identity.operators",
			"refused in user mode, where every process of yours outside of sessions is an operator's; remove the key, and see: guard init --passphrase")
	}
}
