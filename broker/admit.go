package broker

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"leaseguard.internal/gate/dialect"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// admit reads and parses the payload. Without admission the verdict is final.
func (b *Broker) admit(ctx context.Context, conn *peer.Conn, c *call, h wire.Header) (v verdict.Verdict, admitted bool) {
	limit := c.set.config.Limits.Payload
	if h.Flags&wire.FlagOversize != 0 || int64(h.BodyLen) > limit {
		b.drain(conn, h, bodyTime)
		return refuse(verdict.Malformed, "reading", "the hook payload", "it is over the limit of limits.payload, "+itoa(int(limit))+" bytes",
			"make the call smaller, or raise limits.payload"), false
	}
	req, give, err := b.receive(conn, b.treeOf(c.peer, c.session), h)
	switch {
	case errors.Is(err, errOutside):
		return notInside(c.peer), false
	case errors.Is(err, errBusy):
		return busyVerdict("the broker", err.Error()), false
	case err != nil:
		return refuse(verdict.Malformed, "reading", "the hook payload", err.Error(), "check what calls the gate"), false
	}
	c.memory = give
	if v, ok := b.parse(ctx, c, req.Body); !ok {
		return v, false
	}
	if c.session == nil {
		return notInside(c.peer), false
	}
	return verdict.Verdict{}, true
}

func notInside(p peer.Peer) verdict.Verdict {
	return refuse(verdict.NotRegistered, "looking up the session of", "pid "+itoa(p.PID()),
		"no live registered session is among its ancestors", "start the agent with: guard launch RUNTIME")
}

// parse takes a payload apart, a few at a time: it needs many times their size.
func (b *Broker) parse(ctx context.Context, c *call, payload []byte) (verdict.Verdict, bool) {
	select {
	case b.parsing <- struct{}{}:
		defer func() { <-b.parsing }()
	case <-ctx.Done():
		return busyVerdict("the broker", "as many payloads as it can hold are being parsed"), false
	}
	event, err := dialect.Parse(c.host, c.role, payload)
	if err == nil {
		err = cmp.Or(namesFit(event), hostFits(c))
	}
	if err != nil {
		// A host sends something: any tool can end as a gate that reads nothing.
		if c.session != nil && c.own && c.role == wire.RoleDecide && len(payload) > 0 {
			c.session.Unparsed()
		}
		return unreadable(err), false
	}
	c.event = event
	if len(event.Input)+len(event.Prompt)+len(event.Result) <= keepInput { // so that the payload can go while the call waits
		for _, part := range []*[]byte{&c.event.Input, &c.event.Prompt, &c.event.Result} {
			*part = bytes.Clone(*part)
		}
		c.forget()
	}
	return verdict.Verdict{}, true
}

// namesFit refuses names and ids that no host makes so long. All that follows keeps,
// quotes and compares them, in memory that isn't accounted for any more.
func namesFit(ev dialect.Event) error {
	for _, name := range []string{ev.HostSession, ev.Tool, ev.ToolUse, ev.Agent, ev.AgentType, ev.Cwd, ev.Source, ev.Mode, ev.Turn} {
		if len(name) > maxName {
			return fmt.Errorf("%s has %d bytes, and a name may have %d", verdict.Object(name[:64]), len(name), maxName)
		}
	}
	return nil
}

func unreadable(err error) verdict.Verdict {
	return refuse(verdict.Malformed, "parsing", "the hook payload", err.Error(),
		"make the call again; if that fails too, the host's version is not one that guard knows")
}

// hostFits refuses a gate that speaks for another host than the session's runtime:
// each has its own list of what reads.
func hostFits(c *call) error {
	if c.session == nil {
		return nil
	}
	if host, known := hostOf[c.session.Runtime]; known && host != c.host {
		return errors.New("its gate speaks for another host than the session's runtime, " + c.session.Runtime)
	}
	return nil
}
