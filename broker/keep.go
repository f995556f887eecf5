package broker

import (
	"strconv"

	"leaseguard.internal/broker/session"
	"leaseguard.internal/broker/store"
	"leaseguard.internal/internal/peer"
)

// The service manager keeps the anchors' pidfds for us over a restart. A process
// that is held all the time can't become another one, also on kernels where a
// pid and a start time are all that there is to find it again by.

// anchorName is what the session's pidfd is kept under.
func anchorName(id string, generation uint64) string {
	return "anchor-" + id + "-" + strconv.FormatUint(generation, 10)
}

// keepAnchor has the session's pidfd kept.
func (b *Broker) keepAnchor(s *session.Session) {
	if b.opt.Manager == nil {
		return
	}
	p, err := s.Anchor.Dup()
	if err != nil {
		return // it is being closed: the session is over
	}
	defer func() { _ = p.Close() }()
	b.notify(b.opt.Manager.Store(anchorName(s.ID, s.Generation), p.Fd()))
}

// dropAnchor has it forgotten.
func (b *Broker) dropAnchor(s *session.Session) {
	if b.opt.Manager != nil { // whoever told of the end waits for nobody
		b.spawn(func() { b.notify(b.opt.Manager.Forget(anchorName(s.ID, s.Generation))) })
	}
}

// reopen finds the anchor of a stored session again, by the pidfd that was kept,
// else by its number. Both are held against inode and start time of this boot.
func (b *Broker) reopen(r store.Session) (*peer.Process, error) {
	if r.BootID != b.bootID {
		return nil, errOtherBoot
	}
	if f := b.opt.Manager.Stored(anchorName(r.ID, r.Generation)); f != nil {
		p, err := peer.Adopt(f, r.PID, r.Inode, r.StartTime)
		if err != nil {
			b.notify(b.opt.Manager.Forget(anchorName(r.ID, r.Generation)))
		}
		return p, err
	}
	return peer.Reopen(r.PID, r.Inode, r.StartTime)
}
