package broker

import (
	"cmp"
	"strconv"

	"leaseguard.internal/broker/session"
	"leaseguard.internal/broker/store"
	"leaseguard.internal/internal/subuid"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// refreshOwners sees whose the machine's subordinate uids are by now. What it
// can't tell is nobody's, and gets no session.
func (b *Broker) refreshOwners() {
	text := ""
	if err := b.owners.Refresh(); err != nil {
		text = err.Error()
	}
	if was := b.ownerFault.Swap(&text); text != "" && (was == nil || *was != text) {
		b.opt.Log.Warn("some users can't be told apart", "error", text)
	}
}

// own finds the user that a new session counts for.
func (b *Broker) own(s *session.Session) *wire.Error {
	b.refreshOwners()
	switch owner := b.owners.Owner(s.UID); owner {
	case subuid.Nobody:
		return wireError(verdict.BadRequest, "registering", uidText(s.UID), "whose subordinate uid it is can't be told: "+b.ownersUnknown(),
			"launch as a user with an account in /etc/passwd; or have an administrator correct /etc/subuid")
	case s.UID:
	default:
		s.Owner = owner
	}
	return nil
}

// over remembers a session that has ended.
func (b *Broker) over(r store.Session, user uint32) {
	if r.BootID == b.bootID {
		b.ended.mark(user, r.ID)
	}
	b.ended.add(r)
}

// hadSession says why a user is no operator for a session that it has, or had in
// this boot: what ended it can't be told from what it left running, which is in no
// session any more, and may have ended it for that. What root leaves running has
// root's power anyway.
func (b *Broker) hadSession(uid uint32) string {
	switch user := b.owners.Owner(uid); {
	case user == subuid.Nobody:
		return uidText(uid) + " may be a subordinate uid of somebody who has a session: " + b.ownersUnknown()
	case b.sessions.HasUser(user), user != 0 && b.ended.had(user):
		return uidText(uid) + ", or a subordinate uid of it, has a session, or had one since the machine started: what that left running could not be told from its user"
	case user != 0 && (b.sessions.HasUser(subuid.Nobody) || b.ended.had(subuid.Nobody)):
		return "there is a session, or was one, of a uid that may be a subordinate one of " + uidText(uid) + ": " + b.ownersUnknown()
	}
	return ""
}

func (b *Broker) ownersUnknown() string {
	return cmp.Or(*b.ownerFault.Load(), "its range in /etc/subuid has no owner in /etc/passwd, or several")
}

func uidText(uid uint32) string { return "uid " + strconv.FormatUint(uint64(uid), 10) }
