package cli

import (
	"context"
	"fmt"
	"strings"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// operator is a connection's worth of what an operator's command needs.
type operator struct {
	*client.Client
	inside *client.Client // in system mode: what a session asks by
	ctx    context.Context
}

// operator makes sure that a broker runs, and returns a client for it.
func (c Command) operator(ctx context.Context) (operator, error) {
	p, err := c.paths()
	if err != nil {
		return operator{}, err
	}
	if err := client.EnsureBroker(ctx, p); err != nil {
		return operator{}, err
	}
	o := dial(ctx, p)
	o.AskWith(c.askPassphrase)
	return o, nil
}

// dial returns a client for a broker that runs, or for none.
func dial(ctx context.Context, p paths.Paths) operator {
	o := operator{Client: client.Dial(p), ctx: ctx}
	if p.Mode == paths.System {
		o.inside = client.Inside(p)
	}
	return o
}

// operable are the places for a command that no process of a session may run;
// own as for pathsOf.
func (c Command) operable(ctx context.Context, own bool) (paths.Paths, error) {
	p, err := c.pathsOf(own)
	if err == nil {
		err = c.mayOperate(ctx, p)
	}
	return p, err
}

// mayOperate refuses commands that need no broker when they come from inside a
// session. A broker that runs says so itself.
func (c Command) mayOperate(ctx context.Context, p paths.Paths) error {
	up, err := client.Running(ctx, p)
	switch {
	case err != nil:
		return err
	case up:
		_, err = client.Dial(p).Do(ctx, wire.Control{Verb: wire.VerbAudit}, nil)
		return err
	}
	return c.outsideByEnv()
}

// outsideByEnv is what is left to go by when no broker runs that knows better.
func (c Command) outsideByEnv() error {
	if c.env("GUARD_SESSION") != "" {
		return fmt.Errorf("%w (GUARD_SESSION is set); run it from a terminal outside", client.ErrInsideSession)
	}
	return nil
}

// self asks what a session may ask of itself too. In system mode it can't open the
// operators' socket, and does so through its own.
func (o operator) self(ctl wire.Control, body []byte) (wire.Result, error) {
	res, err := o.Do(o.ctx, ctl, body)
	if o.inside != nil && client.Refused(err, verdict.NotOperator) {
		if own, ownErr := o.inside.Do(o.ctx, ctl, body); ownErr == nil {
			return own, nil
		}
	}
	return res, err
}

// status asks for everything that this process may see.
func (o operator) status() (*wire.Status, error) {
	res, err := o.self(wire.Control{Verb: wire.VerbStatus}, nil)
	if err != nil {
		return nil, err
	}
	if res.Status == nil {
		return nil, fmt.Errorf("%w: no status", client.ErrAnswer)
	}
	return res.Status, nil
}

// resolve finds the one session whose id begins with prefix.
func (o operator) resolve(prefix string) (wire.Session, error) {
	st, err := o.status()
	if err != nil {
		return wire.Session{}, err
	}
	return find(st.Sessions, prefix)
}

func find(sessions []wire.Session, prefix string) (wire.Session, error) {
	var fit []wire.Session
	var ids []string
	for _, s := range sessions {
		if s.ID == prefix {
			return s, nil
		}
		if prefix != "" && strings.HasPrefix(s.ID, prefix) {
			fit, ids = append(fit, s), append(ids, s.ID)
		}
	}
	switch len(fit) {
	case 0:
		return wire.Session{}, noSession(prefix, "no live session's id begins so", "guard status")
	case 1:
		return fit[0], nil
	}
	return wire.Session{}, noSession(prefix, "it fits "+strings.Join(ids, " and "), "use more of the id")
}

func noSession(prefix, cause, next string) error {
	return &wire.Error{
		Code:    string(verdict.NoSuchSession),
		Message: verdict.Reason(verdict.NoSuchSession, "finding session", verdict.Object(prefix), cause, next),
	}
}

// grant carries out a verb that binds a session's context documents.
func (c Command) grant(ctx context.Context, session string, ctl wire.Control) (*wire.Grant, error) {
	o, err := c.operator(ctx)
	if err != nil {
		return nil, err
	}
	s, err := o.resolve(session)
	if err != nil {
		return nil, err
	}
	ctl.Session, ctl.Generation = s.ID, s.Generation
	d, err := o.Grant(ctx, ctl)
	return d.Grant, err
}
