package peer

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Signal sends a signal to this very process, by its pidfd.
func (p *Process) Signal(sig unix.Signal) error {
	err := p.withFd(func(fd int) error { return unix.PidfdSendSignal(fd, sig, nil, 0) })
	if err != nil {
		return fmt.Errorf("sending signal %d to process %d: %w", sig, p.PID(), err)
	}
	return nil
}

// SessionID is the process session (setsid) that the process is in.
func (p *Process) SessionID() (int, error) {
	sid, err := unix.Getsid(p.PID())
	if err == nil && !p.Alive() { // the number may have been another's by then
		err = ErrGone
	}
	if err != nil {
		return 0, fmt.Errorf("reading the process session of %d: %w", p.PID(), err)
	}
	return sid, nil
}
