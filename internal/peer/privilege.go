package peer

import (
	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/proc"
)

// unholdable are the capabilities that let a process reach around every fence
// of a broker: trace it, kill it, write its files, or anything at all.
const unholdable = 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_KILL | 1<<unix.CAP_DAC_OVERRIDE

// Privileged says whether the process is root or has one of the capabilities
// against which nothing can be enforced. An error counts as yes to the caller.
func (p *Process) Privileged() (bool, error) {
	if p.UID() == 0 {
		return true, nil
	}
	privileged := true
	err := p.withDir(func(d proc.Dir) error {
		set, err := d.Capabilities()
		privileged = set&unholdable != 0
		return err
	})
	return privileged || err != nil, err
}
