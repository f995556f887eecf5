package session

import "leaseguard.internal/internal/peer"

// Exe returns the path of the program that the process of this step runs. It
// fails once that process has ended.
func (s Step) Exe() (exe string, err error) {
	err = s.look(func(p *peer.Process) error {
		exe, err = p.Exe()
		return err
	})
	return exe, err
}
