package peer

import "leaseguard.internal/internal/proc"

// Name is what the kernel calls the process, at most 15 bytes. It is readable for
// everybody and chosen by the process, so it is no identity. The command line
// would say more, but lies in the process's memory, whose pages a file system of
// its own may never give.
func (p *Process) Name() (name string, err error) {
	if p == nil {
		return "", ErrGone
	}
	err = p.withDir(func(d proc.Dir) error {
		st, err := d.Stat()
		name = st.Name
		return err
	})
	return name, err
}
