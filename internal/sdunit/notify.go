package sdunit

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/clock"
)

// sendTime is how long a service manager that is busy may hold us up.
const sendTime = 200 * time.Millisecond

// maxName is the most bytes that the name of a stored descriptor may have.
const maxName = 255

// Manager is the service manager that started us. A nil one is none.
type Manager struct {
	notify   string // address of its socket; empty: it wants to hear nothing
	watchdog time.Duration
	inherited
}

// Open takes over what a service manager announced in the environment: sockets
// that it listens on at the given paths, descriptors that were stored with it,
// where to report, and how often. It answers nil when none started us.
func Open(sockets ...string) (*Manager, error) {
	notify := os.Getenv("NOTIFY_SOCKET")
	_ = os.Unsetenv("NOTIFY_SOCKET") // can't fail
	watchdog, watchErr := daemon.SdWatchdogEnabled(true)
	in, err := inherit(sockets)
	if err != nil {
		return nil, err
	}
	if watchErr != nil {
		in.close()
		return nil, fmt.Errorf("reading how often the service manager wants a sign of life: %w", watchErr)
	}
	m := &Manager{notify: notify, watchdog: watchdog, inherited: in}
	if m.notify == "" && len(in.sockets) == 0 && len(in.stored) == 0 {
		return nil, nil
	}
	return m, nil
}

// Socket returns the inherited socket at path, which is the caller's from then
// on, or nil. Either all sockets that Open was asked for are there or none is.
func (m *Manager) Socket(path string) *os.File {
	if m == nil {
		return nil
	}
	f := m.sockets[path]
	delete(m.sockets, path)
	return f
}

// Stored returns the descriptor that was stored under the name, which is the
// caller's from then on, or nil.
func (m *Manager) Stored(name string) *os.File {
	if m == nil {
		return nil
	}
	f := m.stored[name]
	delete(m.stored, name)
	return f
}

// Discard closes what of the stored nobody took, and has it forgotten.
func (m *Manager) Discard() error {
	if m == nil {
		return nil
	}
	var errs []error
	for name, f := range m.stored {
		errs = append(errs, m.Forget(name), f.Close())
		delete(m.stored, name)
	}
	return errors.Join(errs...)
}

// Close closes what was inherited and not taken.
func (m *Manager) Close() {
	if m != nil {
		m.close()
	}
}

// Ready says that all is up, or that a reload is over.
func (m *Manager) Ready(status string) error { return m.tell("READY=1", "STATUS="+line(status)) }

// Stopping says that the end has begun.
func (m *Manager) Stopping() error { return m.tell("STOPPING=1") }

// Reloading says that the configuration is being read again; Ready ends it.
func (m *Manager) Reloading() error {
	return m.tell("RELOADING=1", "MONOTONIC_USEC="+strconv.FormatInt(clock.Monotonic().Microseconds(), 10))
}

// Store has the service manager keep a descriptor under a name, for the service's
// next run. It drops the descriptor by itself when that hangs up.
func (m *Manager) Store(name string, fd int) error {
	if len(name) == 0 || len(name) > maxName || strings.ContainsAny(name, ":\n") {
		return fmt.Errorf("storing descriptor %q: not a name that a service manager takes", name)
	}
	return m.send(unix.UnixRights(fd), "FDSTORE=1", "FDNAME="+name)
}

// Forget has the service manager drop what it keeps under the name.
func (m *Manager) Forget(name string) error { return m.tell("FDSTOREREMOVE=1", "FDNAME="+name) }

func (m *Manager) tell(lines ...string) error { return m.send(nil, lines...) }

// send sends one datagram, on a socket of its own: the service manager may have
// begun anew since the last one.
func (m *Manager) send(rights []byte, lines ...string) error {
	if m == nil || m.notify == "" {
		return nil
	}
	err := m.datagram([]byte(strings.Join(lines, "\n")+"\n"), rights)
	if err != nil {
		return fmt.Errorf("telling the service manager %s: %w", lines[0], err)
	}
	return nil
}

func (m *Manager) datagram(text, rights []byte) error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.notify, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	_ = conn.SetWriteDeadline(clock.Deadline(sendTime)) // fails only on a closed connection
	waitErr := raw.Write(func(fd uintptr) bool {
		err = unix.Sendmsg(int(fd), text, rights, nil, unix.MSG_NOSIGNAL)
		return !errors.Is(err, unix.EAGAIN)
	})
	return cmp.Or(waitErr, err)
}

// line keeps a text from being taken for more than one assignment.
func line(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text)
}
