package broker

import (
	"path/filepath"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/broker/session"
	"leaseguard.internal/internal/lookup"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/wire"
)

// seeDeaf ends a Codex that can't start a hook any more, lease or not: it runs
// every tool then, and nobody hears of it. One call that passed can bring that
// about for all that follow, so it is looked for each second.
func (b *Broker) seeDeaf(s *session.Session) {
	if hostOf[s.Runtime] != wire.HostCodex || !s.Launched() { // a launcher has other limits
		return
	}
	code, why := b.deaf(s)
	if code == "" {
		return
	}
	if s.Lease(b.opt.Clock.Now()).State() != lease.Unverified {
		b.lower(s, lease.Observed, why)
	}
	b.endRuntime(s, code, "its host can't start hooks any more, and runs every tool then: "+why)
}

// deaf says why. A hook starts in the directory of the launch by that name: it
// may be deleted, moved, or closed to its own user. And it is a process more,
// which limits that somebody lowers forbid, where a patch and a server's tool need
// none.
func (b *Broker) deaf(s *session.Session) (code, why string) {
	if now, err := s.Anchor.Limits(); err == nil {
		if name := s.Limited(now); name != "" {
			return "host_limited", "somebody has lowered its limit of " + name
		}
	}
	if b.opt.Paths.Mode != paths.User { // another user's directory can't be seen
		return "", ""
	}
	switch cwd, err := s.Anchor.Cwd(); {
	case err != nil:
		return "", ""
	case cwd != s.Dir:
		return "directory_gone", "its working directory is gone, or has another name"
	}
	for dir := s.Dir; ; dir = filepath.Dir(dir) {
		if lookup.Closed(dir) {
			return "directory_gone", "its working directory can't be entered"
		}
		if dir == "/" {
			return "", ""
		}
	}
}
