package peer

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/proc"
)

// maxDepth bounds a walk up; deeper trees have no lineage.
const maxDepth = 64

// tries is how often a step is proved anew when the parent died under it: the
// child then hangs below another ancestor, which is as good.
const tries = 4

// Parent opens the parent and proves that it is: while the child is held, its
// parent's number is the same after the parent was opened as before. It answers
// ErrTop if there is none to be seen.
func (p *Process) Parent() (*Process, error) {
	if p == nil {
		return nil, ErrGone
	}
	// Where the parent was at open is only a place to look first: what counts
	// is that the number holds while both are held (see the package comment).
	for ppid, try := p.ppid, 0; try < tries; try++ {
		if ppid == 0 {
			var err error
			if ppid, err = p.lowest(); err != nil {
				return nil, err
			}
		}
		parent, openErr := open(p.feat, ppid)
		again, err := p.readPPID()
		if err == nil && openErr == nil && again == ppid {
			return parent, nil
		}
		_ = parent.Close()
		if err != nil {
			return nil, fmt.Errorf("reading the parent of process %d: %w", p.pid, err)
		}
		if openErr != nil && !errors.Is(openErr, ErrGone) {
			return nil, openErr
		}
		ppid = again
	}
	return nil, fmt.Errorf("finding the parent of process %d: it changed %d times: %w", p.pid, tries, ErrLineage)
}

// lowest finds the parent's number of a process that seemed to have none: it
// answers ErrTop if that is so. stat shows none of a process, or of a parent, that
// is being reaped either, and a walk that ended there would find the caller
// outside of every session. So the process must live after each of several looks.
func (p *Process) lowest() (ppid int, err error) {
	for range tries {
		switch ppid, err = p.readPPID(); {
		case err != nil:
			return 0, fmt.Errorf("reading the parent of process %d: %w", p.pid, err)
		case !p.Alive():
			return 0, fmt.Errorf("finding the parent of process %d: %w", p.pid, ErrGone)
		case ppid != 0:
			return ppid, nil
		}
	}
	return 0, ErrTop
}

// readPPID reads the parent's number, of a process that still has its own.
func (p *Process) readPPID() (int, error) {
	ppid := 0
	if p.feat.getInfo {
		err := p.withFd(func(fd int) error {
			info, err := getInfo(fd)
			ppid = int(info.Ppid)
			return err
		})
		if errors.Is(err, unix.ESRCH) || errors.Is(err, errNoInfo) {
			err = ErrGone
		}
		return ppid, err
	}
	err := p.withDir(func(d proc.Dir) error {
		st, err := d.Stat()
		ppid = st.PPID
		return err
	})
	return ppid, err
}

// Ancestors visits p itself, then its parent, and so on up, each step proved
// while the process below is held. It ends when visit says stop or fails, and
// without an error at the top. Processes above p are closed when the walk has
// passed them; a visitor that keeps one takes a Dup.
func Ancestors(p *Process, visit func(*Process) (stop bool, err error)) error {
	return walk(p, maxDepth, visit)
}

func walk(p *Process, depth int, visit func(*Process) (bool, error)) error {
	if p == nil {
		return ErrGone
	}
	current := p
	defer func() {
		if current != p {
			_ = current.Close()
		}
	}()
	for range depth {
		stop, err := visit(current)
		if stop || err != nil {
			return err
		}
		parent, err := current.Parent()
		if errors.Is(err, ErrTop) {
			return nil
		}
		if err != nil {
			return err
		}
		if current != p {
			_ = current.Close()
		}
		current = parent
	}
	return fmt.Errorf("walking up from process %d: more than %d processes: %w", p.pid, depth, ErrLineage)
}
