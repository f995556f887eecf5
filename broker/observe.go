package broker

import (
	"strings"

	"golang.org/x/sys/unix"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/broker/session"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/lookup"
	"leaseguard.internal/internal/paths"
)

// seeDirectory revokes a lease whose runtime stands in a directory that is gone:
// some hosts can't start a hook from there and go on without. In system mode the
// broker can't read another user's working directory; the docs say so.
func (b *Broker) seeDirectory(s *session.Session) {
	if b.opt.Paths.Mode != paths.User || s.Lease(b.opt.Clock.Now()).State() == lease.Unverified {
		return
	}
	cwd, err := s.Anchor.Cwd()
	if err != nil || !strings.HasSuffix(cwd, " (deleted)") {
		return
	}
	// It may be only called so. That is believed if it can be told without asking
	// the file system, which may be the session's own and never answer.
	held, heldErr := s.Anchor.CwdFile()
	named, namedErr := lookup.Named(cwd)
	if heldErr != nil || namedErr != nil || held != named {
		b.lower(s, lease.Observed, "the runtime's working directory is gone")
	}
}

// endRuntime kills a session's anchor for a reason that is recorded.
func (b *Broker) endRuntime(s *session.Session, code, reason string) {
	b.record(b.sessionEvent(s, code, reason))
	if err := s.Anchor.Signal(unix.SIGKILL); err != nil {
		b.opt.Log.Warn("ending a session's runtime", "session", s.ID, "reason", reason, "error", err)
	}
}

// seeLeader ends a session whose anchor lives on without its first thread. Its
// pidfd doesn't tell, and a session without a lease can wait.
func (b *Broker) seeLeader(s *session.Session) {
	if s.Lease(b.opt.Clock.Now()).State() == lease.Unverified {
		return
	}
	if ended, err := s.Anchor.LeaderEnded(); err == nil && ended {
		b.exited(s)
	}
}

// endUnproved ends unattended sessions whose gate stays silent, where the
// operator wants that. An interactive client sends nothing while a dialog waits,
// so it is only shown.
func (b *Broker) endUnproved(all []*session.Session, now clock.Instant) {
	cfg := &b.settings().config.Launch
	if cfg.Unproved != "end" {
		return
	}
	for _, s := range all {
		if !s.Unattended || s.Unseen(now) <= cfg.ProveTimeout || s.Gone() {
			continue
		}
		b.endRuntime(s, "unproved_ended", "its host's gate was not heard within launch.prove_timeout")
	}
}
