package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"leaseguard.internal/broker/session"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// caller is who connected to the operators' socket. The zero caller is proved to
// be an operator.
type caller struct {
	session *session.Session // it is inside this one
	path    []session.Step   // from it up to the session's anchor
	refused string           // why it is no operator, although it is in no session
}

// groupsOf reads the groups of a peer where they make an operator.
func (b *Broker) groupsOf(conn *peer.Conn) ([]uint32, error) {
	if b.opt.Paths.Mode != paths.System {
		return nil, nil
	}
	return conn.Groups()
}

// identify proves that the peer is an operator, or finds what it is.
func (b *Broker) identify(p peer.Peer, groups []uint32) caller {
	s, path, err := b.sessions.Find(p.Process())
	switch {
	case err == nil:
		return caller{session: s, path: path}
	case !errors.Is(err, session.ErrNotRegistered):
		return caller{refused: "its ancestors could not be proved: " + err.Error()}
	}
	return caller{refused: b.outsider(p.UID(), groups)}
}

// outsider says why a process outside of all sessions is no operator. In user
// mode everything of the broker's own user is one: that is all the kernel can
// tell, and why there is a passphrase. In system mode the socket's mode keeps
// others out already; it is asked again, since a mode can be changed.
func (b *Broker) outsider(uid uint32, groups []uint32) string {
	who := uidText(uid)
	if b.opt.Paths.Mode != paths.System {
		if uid != b.opt.UID && uid != 0 {
			return who + " is not the broker's"
		}
		return ""
	}
	if had := b.hadSession(uid); had != "" {
		return had
	}
	switch {
	case uid == 0:
		return ""
	case !slices.Contains(groups, b.opt.Paths.OperatorGID):
		return who + " is not in the group " + paths.OperatorGroup
	case !b.settings().operators.has(uid, groups):
		return who + " is not named in identity.operators"
	}
	return ""
}

// named are the users and groups of identity.operators. The zero value names
// everybody: the key can only narrow.
type named struct {
	some       bool
	uids, gids []uint32
}

// namedOperators looks the names up. One that isn't there may be a typing error,
// and would let in whoever gets that name later.
func namedOperators(list []string) (named, error) {
	n := named{some: len(list) > 0}
	for _, text := range list {
		name, isGroup := strings.CutPrefix(text, "%")
		look, to := paths.UserID, &n.uids
		if isGroup {
			look, to = paths.GroupID, &n.gids
		}
		id, err := look(name)
		if err != nil {
			return named{}, fmt.Errorf("looking up %s of identity.operators: %w; write users, or groups with a %% before them, that this machine has", verdict.Object(text), err)
		}
		*to = append(*to, id)
	}
	return n, nil
}

func (n named) has(uid uint32, groups []uint32) bool {
	return !n.some || slices.Contains(n.uids, uid) ||
		slices.ContainsFunc(groups, func(gid uint32) bool { return slices.Contains(n.gids, gid) })
}

// perform runs an operator's verb. Who they are is asked again: the caller may
// have been put into a session since it connected.
func (b *Broker) perform(ctx context.Context, p peer.Peer, groups []uint32, was caller, ctl wire.Control, body []byte) wire.Result {
	now := b.identify(p, groups)
	switch {
	case now.session != nil && now.session == was.session && ctl.Verb == wire.VerbStatus:
		return wire.Result{Status: b.status(now.session)}
	case now.session != nil && now.session == was.session && ctl.Verb == wire.VerbExplain:
		return b.explain(ctx, now.session, now.path, ctl, body, b.unasked)
	case now.session != nil:
		return b.notOperator(p, ctl, "the caller is inside session "+now.session.ID)
	case now.refused != "" || was.session != nil || was.refused != "":
		return b.notOperator(p, ctl, cmp.Or(now.refused, was.refused, "its session has ended"))
	}
	switch ctl.Verb {
	case wire.VerbExplain, wire.VerbCheckpoint, wire.VerbInspect:
		return b.askZVM(ctx, p, ctl, body)
	default:
	}
	r := b.operatorVerb(ctx, p, ctl, body)
	if r.Error != nil && r.Error.Code == string(verdict.PassphraseWrong) {
		b.recordOften(audit.Record{Event: audit.EventBroker, Code: r.Error.Code, CallerPID: p.PID(),
			Reason: "verb " + verdict.Object(string(ctl.Verb)) + " for " + verdict.Object(ctl.Session)})
	}
	return r
}

// operatorVerb runs a verb of a proved operator.
func (b *Broker) operatorVerb(ctx context.Context, p peer.Peer, ctl wire.Control, body []byte) wire.Result {
	switch ctl.Verb {
	case wire.VerbHooks, wire.VerbHooksTrust, wire.VerbHooksRevoke:
		return b.hooksVerb(ctx, p, ctl, body)
	default:
		return b.verb(ctx, ctl, body)
	}
}

func (b *Broker) notOperator(p peer.Peer, ctl wire.Control, cause string) wire.Result {
	// The session that the caller names is his own text, and no key of ours.
	b.recordOften(audit.Record{Event: audit.EventSession, Code: string(verdict.NotOperator), CallerPID: p.PID(),
		Reason: "verb " + verdict.Object(string(ctl.Verb)) + " for " + verdict.Object(ctl.Session) + ": " + cause})
	next := "run it from a terminal outside any session"
	if b.opt.Paths.Mode == paths.System {
		next += ", as root, or as an operator who had no session since the machine started"
	}
	return wire.Result{Error: wireError(verdict.NotOperator, "serving", "an operator's command", cause, next)}
}
