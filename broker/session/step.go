package session

import (
	"errors"
	"fmt"
	"io/fs"

	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/runtimes"
)

// ID is the process of this step.
func (s Step) ID() peer.ID { return s.id }

// Runtime says which runtime the process of this step runs, if it is one, by the
// name of its program: no file of a peer's choice is looked at. In system mode
// nobody shows us another user's program; then what the kernel calls the process
// has to do, which it can change. A process that has ended runs
// none.
func (s Step) Runtime() (name string, is bool) {
	err := s.look(func(p *peer.Process) error {
		exe, err := p.Exe()
		if err == nil {
			name, is = runtimes.Named(exe)
			return nil
		}
		if !errors.Is(err, fs.ErrPermission) {
			return err
		}
		called, err := p.Name()
		name, is = runtimes.Named(called)
		return err
	})
	return name, is && err == nil
}

// look runs f on the process of this step, if that lives.
func (s Step) look(f func(*peer.Process) error) error {
	p, err := peer.Open(s.PID)
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	if !p.ID().Same(s.id) {
		return fmt.Errorf("reading the program of process %d: %w", s.PID, peer.ErrGone)
	}
	return f(p)
}
