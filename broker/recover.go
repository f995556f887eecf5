package broker

import (
	"context"
	"errors"
	"strings"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/broker/session"
	"leaseguard.internal/broker/token"
	"leaseguard.internal/gate/dialect"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// recoveryTool is the name under which the host offers the session's own
// recovery tool. The server's part can't be guessed by a project.
func recoveryTool(s *session.Session) string {
	if s == nil || s.Server == "" {
		return ""
	}
	plain := strings.ReplaceAll(s.Server, "-", "_")
	switch hostOf[s.Runtime] {
	case wire.HostPi: // there it is a tool of guard's extension
		return plain + "_recover"
	case wire.HostCodex: // which makes its models' names of letters and digits
		return "mcp__" + plain + "__recover"
	default:
		return "mcp__" + s.Server + "__recover"
	}
}

// isRecovery says whether the call is for the session's own recovery tool. If
// the host itself announces it, the broker opens to that one call for seconds.
func (b *Broker) isRecovery(c *call) bool {
	if name := recoveryTool(c.session); name == "" || c.event.Tool != name || c.event.Kind != dialect.ToolCall {
		return false
	}
	if hash, err := recoveryArguments(c.event.Input); err == nil && c.own {
		c.session.Announce(hash, b.opt.Clock.Now())
	}
	return true
}

// recoveryArguments reads the recovery tool's input: nothing, which begins, or
// a token, which promotes.
func recoveryArguments(input []byte) (lease.Hash, error) {
	var in struct {
		Token *string `json:"token"`
	}
	fields, err := strictjson.Fields(input, "token")
	if err != nil || len(fields) == 0 {
		return lease.Hash{}, err
	}
	if err := strictjson.Decode(input, &in); err != nil || in.Token == nil {
		return lease.Hash{}, errTokenUnknown
	}
	t, err := token.Parse(*in.Token)
	return t.Hash(), err
}

// recover answers the process that serves the recovery tool. It must be a child
// of the anchor in the anchor's own process session: tools of a host run in
// sessions of their own.
func (b *Broker) recover(ctx context.Context, p peer.Peer, s *session.Session, path []session.Step, ctl wire.Control, body []byte) wire.Result {
	if err := b.pin(p, s, path); err != nil {
		if s.Launched() { // the client of a proof starts the tool too, and asks in vain
			b.recordOften(b.sessionEvent(s, "recovery_refused", err.Error()))
		}
		return wire.Result{Error: wireError(verdict.NotOperator, "recovering session", s.ID, err.Error(), "guard approve "+s.ID+" (an operator runs it, outside the session)")}
	}
	// Only what belongs to a recovery goes on: the rest of a request is for
	// operators.
	ctl = wire.Control{Verb: ctl.Verb, Session: s.ID, Generation: ctl.Generation, Token: ctl.Token, Documents: ctl.Documents}
	if ctl.Verb == wire.VerbContext {
		return b.context(ctl)
	}
	var hash lease.Hash
	if ctl.Verb == wire.VerbRecoverPromote {
		t, err := token.Parse(ctl.Token)
		if err != nil {
			return b.granted(s, lease.Lease{}, lease.Hash{}, errTokenUnknown)
		}
		hash = t.Hash()
	}
	if err := s.TakeRecovery(hash, b.opt.Clock.Now()); err != nil {
		b.recordOften(b.sessionEvent(s, "recovery_refused", err.Error()))
		return wire.Result{Error: wireError(verdict.GateUnseen, "recovering session", s.ID, err.Error(), "call the recovery tool through the host")}
	}
	ctl.Verb = map[wire.Verb]wire.Verb{wire.VerbRecoverBegin: wire.VerbVerify, wire.VerbRecoverPromote: wire.VerbPromote}[ctl.Verb]
	return b.grant(ctx, ctl, body)
}

func (b *Broker) pin(p peer.Peer, s *session.Session, path []session.Step) error {
	switch {
	case s.Server == "" || b.settings().config.Lease.Promotion != "self": // it may have been taken away since
		return errors.New("lease.promotion is operator")
	case !s.Launched() || len(path) != 2:
		return errors.New("the caller is not a child of the session's runtime")
	}
	if !inSession(p.Process(), s.Anchor) {
		return errors.New("the caller is not in the runtime's own process session")
	}
	return s.Pin(p.Process())
}
