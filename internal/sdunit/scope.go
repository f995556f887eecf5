package sdunit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	sysdbus "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// Scope is a transient scope unit: a cgroup that a service manager makes around
// a process that others have started.
type Scope struct {
	Unit        string // ends in .scope
	Slice       string // where it goes; empty: the manager's own choice
	Description string
	PID         int
	PIDFD       int // of the same process; open until Start returns
}

// place is where a service manager listens.
type place struct {
	address string
	bus     bool // by way of a bus, which wants to be greeted
}

// Scopes asks a service manager for scopes. What it answers proves nothing: the
// caller looks where the process is. The methods may be called from several
// goroutines.
type Scopes struct {
	places []place

	mu   sync.Mutex // held while connecting alone
	conn *sysdbus.Conn
}

// SystemScopes asks the system's manager: over the system bus, and as root also
// directly, since early in a boot there is no bus.
func SystemScopes() *Scopes {
	s := &Scopes{}
	if os.Geteuid() == 0 {
		s.places = append(s.places, place{address: unixAddress("/run/systemd/private")})
	}
	s.places = append(s.places, place{address: unixAddress("/run/dbus/system_bus_socket"), bus: true})
	return s
}

// UserScopes asks the user's own manager, by its private socket.
func UserScopes(socket string) *Scopes {
	return &Scopes{places: []place{{address: unixAddress(socket)}}}
}

func unixAddress(path string) string { return "unix:path=" + dbus.EscapeBusAddressValue(path) }

// Connect connects, if that isn't done yet.
func (s *Scopes) Connect(ctx context.Context) error {
	_, err := s.connect(ctx)
	return err
}

func (s *Scopes) connect(ctx context.Context) (*sysdbus.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		if s.conn.Connected() {
			return s.conn, nil
		}
		s.conn.Close()
		s.conn = nil
	}
	var errs []error
	for _, p := range s.places {
		conn, err := sysdbus.NewConnection(func() (*dbus.Conn, error) { return p.dial(ctx) })
		if err == nil {
			s.conn = conn
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("connecting to the service manager: %w", errors.Join(errs...))
}

// dial opens one connection. It outlives ctx, which bounds the greeting.
func (p place) dial(ctx context.Context) (*dbus.Conn, error) {
	life, end := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, end)
	conn, err := dbus.Dial(p.address, dbus.WithContext(life))
	if err != nil {
		stop()
		end()
		return nil, err
	}
	err = conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Geteuid()))})
	if err == nil && p.bus {
		err = conn.Hello()
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		end() // closes it
		return nil, errors.Join(err, ctx.Err())
	}
	return conn, nil
}

// Start has the manager start the scope around its process, and waits until it
// says that it has.
func (s *Scopes) Start(ctx context.Context, scope Scope) error {
	conn, err := s.connect(ctx)
	if err == nil {
		// By pidfd it can't be another process that got the number. Managers
		// before systemd 254 know numbers alone.
		err = start(ctx, conn, scope, "PIDFDs", []dbus.UnixFD{dbus.UnixFD(scope.PIDFD)}) // #nosec G115 -- the kernel's descriptors are that small
		if refused := (dbus.Error{}); errors.As(err, &refused) && ctx.Err() == nil {
			err = start(ctx, conn, scope, "PIDs", []uint32{uint32(scope.PID)}) // #nosec G115 -- a pid has 22 bits
		}
	}
	if err != nil {
		return fmt.Errorf("starting %q: %w", scope.Unit, err)
	}
	return nil
}

func start(ctx context.Context, conn *sysdbus.Conn, scope Scope, by string, processes any) error {
	props := []sysdbus.Property{
		sysdbus.PropDescription(scope.Description),
		{Name: "CollectMode", Value: dbus.MakeVariant("inactive-or-failed")}, // nothing of it stays behind
		{Name: by, Value: dbus.MakeVariant(processes)},
	}
	if scope.Slice != "" {
		props = append(props, sysdbus.PropSlice(scope.Slice))
	}
	done := make(chan string, 1)
	if _, err := conn.StartTransientUnitContext(ctx, scope.Unit, "fail", props, done); err != nil {
		return err
	}
	select {
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("the job ended as %q", result)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the job: %w", ctx.Err())
	}
}

// Close closes the connection. Scopes live on.
func (s *Scopes) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}
