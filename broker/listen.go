package broker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/peer"
)

// place is one of the two sockets and who may connect to it.
type place struct {
	path string
	perm fs.FileMode
	gid  uint32 // whose the group's permission is; paths.NoGID: nobody's
}

// places are the sockets. In user mode they are the user's alone. In system mode
// everybody may ask at the one, and the operators' group at the other; who that
// is in fact is decided for each connection.
func (b *Broker) places() []place {
	p := b.opt.Paths
	if p.Mode == paths.System {
		return []place{{p.BrokerSocket, 0o666, paths.NoGID}, {p.OperatorSocket, 0o660, p.OperatorGID}}
	}
	return []place{{p.BrokerSocket, 0o600, paths.NoGID}, {p.OperatorSocket, 0o600, paths.NoGID}}
}

// listen takes over the sockets that a service manager listens on, or makes its
// own where it does not. Never both: there would be two at one path.
func (b *Broker) listen() error {
	for _, at := range b.places() {
		l, err := b.listenAt(at)
		if err != nil {
			return err
		}
		b.listeners = append(b.listeners, l)
		if at.path != b.opt.Paths.OperatorSocket {
			continue // a gate that finds no room waits too, but has little time
		}
		if err := l.Crowd(maxCrowd); err != nil {
			return err
		}
	}
	return nil
}

func (b *Broker) listenAt(at place) (*peer.Listener, error) {
	if f := b.opt.Manager.Socket(at.path); f != nil {
		// A service manager of the user's makes sockets in the user's own
		// directory, which keeps others out whatever their mode is.
		a := peer.Access{Perm: 0o666, GID: peer.NoUID}
		if at.path == b.opt.Paths.OperatorSocket {
			a = peer.Access{Perm: 0o660, GID: at.gid}
		}
		return peer.Inherit(f, at.path, a)
	}
	if err := peer.RemoveStale(at.path, b.opt.UID); err != nil {
		return nil, err
	}
	l, err := peer.Listen(at.path, at.perm)
	if err != nil {
		if b.opt.Paths.Mode == paths.System {
			err = fmt.Errorf("%w; in system mode systemd makes the sockets, so run: systemctl start guard-broker.socket guard-operator.socket; without systemd: %s", err, paths.Manual("install.md"))
		}
		return nil, err
	}
	if at.gid != paths.NoGID {
		if err := os.Chown(at.path, -1, int(at.gid)); err != nil {
			_ = l.Close()
			return nil, fmt.Errorf("giving the operators' socket to their group: %w", err)
		}
	}
	return l, nil
}

// selfTest proves, before anybody is told that the broker is ready, that it can
// write what a grant needs, and that its sockets lead to itself and are served.
func (b *Broker) selfTest(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()
	for _, at := range b.places() {
		err := peer.Reach(ctx, at.path)
		if at.gid != paths.NoGID && errors.Is(err, fs.ErrPermission) {
			continue // the broker's own user is no operator, and its socket keeps it out as it should
		}
		if err != nil {
			return fmt.Errorf("testing the broker's own socket: %w", err)
		}
	}
	return nil
}

// ready makes the start known once all of it has worked. A disk that fails ends
// a broker that a service manager watches over: it says so and starts again.
// Elsewhere nobody would, so that one goes on, denies, and shows why.
func (b *Broker) ready(ctx context.Context) error {
	err := b.recordStart(ctx)
	if err != nil && ctx.Err() == nil {
		b.opt.Log.Error("recording the start", "error", err)
		if b.opt.Manager != nil {
			return fmt.Errorf("recording the start: %w", err)
		}
	}
	if err = b.selfTest(ctx); err != nil {
		return err
	}
	b.notify(b.opt.Manager.Ready(b.summary()))
	b.opt.Log.Info("ready", "run", b.opt.Paths.RunDir, "state", b.opt.Paths.StateDir, "pid", os.Getpid())
	return nil
}

// summary is what systemctl status shows.
func (b *Broker) summary() string {
	text := itoa(b.sessions.Len()) + " sessions"
	if err := b.configError(); err != "" {
		text += "; the configuration in force is an older one: " + err
	}
	return text
}

// notify notes that the service manager could not be told something. It would
// act on that by itself; nothing of ours depends on it.
func (b *Broker) notify(err error) {
	if err != nil {
		b.opt.Log.Warn("talking to the service manager", "error", err)
	}
}

// startRecord is this run's first record.
func (b *Broker) startRecord() audit.Record {
	return b.stamped(audit.Record{Event: audit.EventBroker, Code: "started", Reason: "broker " + b.opt.Version})
}
