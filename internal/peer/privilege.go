package peer

import (
	"slices"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/proc"
)

// unholdable are the capabilities that let a process reach around every fence
// of a broker: trace it, kill it, write its files, or anything at all.
const unholdable = 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_KILL | 1<<unix.CAP_DAC_OVERRIDE

// Privileged says whether the process is root by any of its uids, or may take up
// a capability that nothing could hold it with. On error it must be taken as
// privileged.
func (p *Process) Privileged() (bool, error) {
	if p == nil {
		return true, ErrGone
	}
	privileged := true
	err := p.withDir(func(d proc.Dir) error {
		st, err := d.Status()
		if err == nil {
			privileged = st.Permitted&unholdable != 0 || slices.Contains(st.UIDs[:], 0)
		}
		return err
	})
	return privileged, err
}
