package peer

import "leaseguard.internal/internal/proc"

// Names are what the process goes by: the kernel's name for it, at most 15 bytes
// long, and the first word of its command line. Both are readable for everybody
// and chosen by the process, so they are no identity.
func (p *Process) Names() ([]string, error) {
	if p == nil {
		return nil, ErrGone
	}
	var names []string
	err := p.withDir(func(d proc.Dir) error {
		st, err := d.Stat()
		if err != nil {
			return err
		}
		argv0, err := d.Argv0()
		names = []string{st.Name, argv0}
		return err
	})
	return names, err
}
