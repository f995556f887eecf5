package broker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"leaseguard.internal/broker/session"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/sdunit"
	proctree "leaseguard.internal/internal/tree"
)

// A launch waits scopeTime for its scope. After a service manager took longer
// than that, the next ones do without for scopePause.
const (
	scopeTime  = 3 * time.Second
	scopePause = time.Minute
)

// noManager is where there is none to ask.
type noManager struct{}

// Connect connects to nobody.
func (noManager) Connect(context.Context) error { return errNoManager }

// Start starts nothing.
func (noManager) Start(context.Context, sdunit.Scope) error { return errNoManager }

// Close has nothing to close.
func (noManager) Close() {}

var errNoManager = errors.New("this user has no service manager")

// scopes is a service manager that makes cgroups.
type scopes interface {
	Connect(context.Context) error
	Start(context.Context, sdunit.Scope) error
	Close()
}

// fences asks a service manager for a cgroup around each new session. Without
// one a session has its lineage alone, and status says so.
type fences struct {
	manager  scopes
	patience time.Duration

	mu    sync.Mutex
	err   error         // why the last session has no cgroup
	again clock.Instant // when to ask once more
}

// errNoFence stands until a session has got one: that a manager answers doesn't
// say that it makes scopes for us.
var errNoFence = errors.New("no session has been given a cgroup yet")

// newFences asks the system's manager in system mode, whose cgroups nobody but
// root can change, and the user's own elsewhere.
func newFences(p paths.Paths) *fences {
	if p.Mode == paths.System {
		return &fences{manager: sdunit.SystemScopes(), patience: scopeTime, err: errNoFence}
	}
	if strings.HasPrefix(p.RunDir, p.StateDir) { // no XDG_RUNTIME_DIR, so no service manager of the user's either
		return &fences{manager: noManager{}, err: errNoFence}
	}
	return &fences{manager: sdunit.UserScopes(filepath.Join(filepath.Dir(p.RunDir), "systemd", "private")), patience: scopeTime, err: errNoFence}
}

// probe finds out, without holding anybody up, whether there is a manager.
func (b *Broker) probeFences(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, b.fences.patience)
	defer cancel()
	if err := b.fences.manager.Connect(ctx); err != nil {
		again := clock.Instant(0)
		if errors.Is(err, errNoManager) {
			again = math.MaxInt64 // none will come
		}
		b.fences.failed(err, again)
		b.opt.Log.Info("sessions get no cgroup", "error", err)
	}
}

// level is what status says.
func (f *fences) level() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return "absent"
	}
	return "scope"
}

func (f *fences) failed(err error, again clock.Instant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.again = err, again
}

func (f *fences) resting(now clock.Instant) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return now < f.again
}

// unit names the scope of one generation: no two sessions share one.
func unit(s *session.Session) string {
	return fmt.Sprintf("guard-session-%s-%d.scope", s.ID, s.Generation)
}

// enclose puts a new session into a cgroup of its own, before its launcher starts
// anything. A failure is no reason to refuse the launch.
func (b *Broker) enclose(ctx context.Context, s *session.Session) {
	now := b.opt.Clock.Now()
	if b.fences.resting(now) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, b.fences.patience)
	defer cancel()
	err := b.startScope(ctx, s)
	if err == nil {
		err = b.fence(s)
	}
	again := clock.Instant(0)
	if err != nil {
		b.opt.Log.Info("a session gets no cgroup", "session", s.ID, "error", err)
		if ctx.Err() != nil {
			again = now.Add(scopePause)
		}
	}
	b.fences.failed(err, again)
}

func (b *Broker) startScope(ctx context.Context, s *session.Session) error {
	anchor, err := s.Anchor.Dup()
	if err != nil {
		return err
	}
	defer func() { _ = anchor.Close() }()
	scope := sdunit.Scope{Unit: unit(s), Description: "leaseguard session " + s.ID, PID: anchor.PID(), PIDFD: anchor.Fd()}
	if b.opt.Paths.Mode == paths.System {
		scope.Slice = fmt.Sprintf("user-%d.slice", s.UID) // where the user's limits apply
	}
	return b.fences.manager.Start(ctx, scope)
}

// fence looks for itself whether the anchor is in the cgroup that bears the
// session's name.
func (b *Broker) fence(s *session.Session) error {
	c, err := proctree.CgroupOf(s.Anchor, unit(s))
	if err != nil {
		return err
	}
	return b.sessions.Enclose(s, session.Fence{Cgroup: c, Boundary: c.Root && b.opt.Paths.Mode == paths.System})
}
