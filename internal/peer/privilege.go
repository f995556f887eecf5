package peer

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/proc"
)

// unholdable are the capabilities that let a process reach around every fence
// of a broker: trace it, kill it, write its files, or anything at all.
const unholdable = 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_KILL | 1<<unix.CAP_DAC_OVERRIDE

// Privileged says whether the process is root by any of its uids, or has or may
// come by a capability that nothing could hold it with. Capabilities in a user
// namespace that it made for itself are none over us. On error it must be taken
// as privileged.
func (p *Process) Privileged() (bool, error) {
	if p == nil {
		return true, ErrGone
	}
	privileged := true
	err := p.withDir(func(d proc.Dir) error {
		st, err := d.Status()
		if err != nil {
			return err
		}
		root, capable := slices.Contains(st.UIDs[:], 0), st.Caps&unholdable != 0
		if capable && !root {
			capable, err = reachesUs(d, st.EUID())
		}
		privileged = root || capable || err != nil
		return err
	})
	return privileged, err
}

// reachesUs says whether capabilities of a process count against us: it is in
// our own user namespace, or in one that has ids of others than itself that
// matter, which only root can have made.
func reachesUs(d proc.Dir, euid uint32) (bool, error) {
	self, err := proc.Open(os.Getpid())
	if err != nil {
		return true, err
	}
	defer func() { _ = self.Close() }()
	ours, _, err := self.IDMaps()
	if err != nil {
		return true, err
	}
	uids, gids, err := d.IDMaps()
	if err != nil {
		return true, err
	}
	me := uint32(os.Geteuid()) //nolint:gosec // the kernel's uids are 32 bits
	return slices.Equal(uids, ours) || uids.Covers(0) || gids.Covers(0) || me != euid && uids.Covers(me), nil
}
