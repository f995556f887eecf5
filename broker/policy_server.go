package broker

import (
	"context"
	"fmt"
	"time"

	"leaseguard.internal/broker/policy"
	"leaseguard.internal/gate/dialect"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// Bounds of the results of tools that a policy server judges.
const (
	resultTime     = 1500 * time.Millisecond // that the gate of an observer has for an answer: less than its 2 s
	resultsAtOnce  = 128                     // of all sessions
	resultsSession = 16                      // of one
)

// codeResult is the record's code for a result that was judged after its event
// had been answered.
const codeResult = "result_judged"

// askServer asks the policy server, as long as there is time and somebody waits for
// the answer.
func (b *Broker) askServer(ctx context.Context, c *call, q policy.Call) (verdict.Verdict, bool) {
	ctx, cancel := context.WithTimeout(ctx, b.left(c))
	defer cancel()
	defer c.conn.CancelOnHangup(cancel)()
	return c.serverRow(c.set.server.Judge(ctx, q))
}

// promptRow judges what a person has said: only a policy server does. The prompt
// of a proof goes to a model of guard's own.
func (b *Broker) promptRow(ctx context.Context, c *call) verdict.Verdict {
	if c.set.server != nil && c.session.Launched() {
		if v, final := b.askServer(ctx, c, c.question()); final {
			return v
		}
	}
	return pass(promptCode)
}

// seen answers an event that asks for no decision. What the policy server has
// against the result of a tool is told to the model: beside the result if it is
// known in time, else with the next call that passes. It stops nothing: the tool
// has run. What the recovery tool gives may be a token, and goes nowhere.
func (b *Broker) seen(ctx context.Context, c *call) verdict.Verdict {
	v := verdict.Verdict{Kind: verdict.Pass, Code: observedCode}
	if c.set.server == nil || !c.own || !c.event.Ran() || !c.session.Launched() || c.event.Tool == recoveryTool(c.session) {
		return v
	}
	tree := b.treeOf(c.peer, c.session)
	if b.results.take(tree, 1, resultsSession) != fits {
		c.policies = append(c.policies, audit.PolicyResult{Kind: audit.PolicyServer, Status: "aborted", Exit: -1, Decision: audit.PolicyPasses})
		return v
	}
	q := c.question()
	r := b.sessionEvent(c.session, codeResult, "")
	r.Tool, r.ToolUse, r.HostSession, r.HookEvent = c.event.Tool, c.event.ToolUse, c.event.HostSession, c.event.Name
	done, left := make(chan policy.Opinion), make(chan struct{})
	give := c.memory // the result stays a part of the payload
	c.memory = nil
	b.spawn(func() {
		defer b.results.give(tree, 1)
		if give != nil {
			defer give()
		}
		defer func() {
			if r := recover(); r != nil {
				b.opt.Log.Error("judging a result panicked", "tool", q.Event.Tool, "panic", r)
			}
		}()
		o := c.set.server.Judge(ctx, q)
		select {
		case done <- o:
		case <-left:
			b.tooLate(q, c, r, o)
		}
	})
	wait, cancel := context.WithTimeout(ctx, resultTime)
	defer cancel()
	select {
	case o := <-done:
		v.Context, _ = violation(o)
		if o.Result != nil {
			c.policies = append(c.policies, *o.Result)
		}
	case <-wait.Done():
		close(left)
	}
	return v
}

// violation is what the model is told of a result.
func violation(o policy.Opinion) (text string, is bool) {
	if !o.Denied {
		return "", false
	}
	return "[Policy violation] " + o.Cause, true
}

// tooLate keeps what came after the event was answered, for the model and for the
// record.
func (b *Broker) tooLate(q policy.Call, c *call, r audit.Record, o policy.Opinion) {
	if text, is := violation(o); is {
		c.session.Tell(fmt.Sprintf("%s (the result of %s)", text, verdict.Object(q.Event.Tool)))
	}
	if o.Result != nil {
		r.Policies = []audit.PolicyResult{*o.Result}
		b.record(r)
	}
}

// told puts behind a pass what its model is still to be told.
func (c *call) told(v verdict.Verdict) verdict.Verdict {
	if v.Kind != verdict.Pass || c.role != wire.RoleDecide || !c.own || !c.event.Listens() {
		return v
	}
	for _, note := range c.session.Told() {
		if v.Context != "" {
			v.Context += " "
		}
		v.Context += note
	}
	return v
}

// answer writes a verdict to the gate in the words of its host.
func (b *Broker) answer(c *call, v verdict.Verdict) {
	b.reply(c.conn, dialect.Render(c.host, c.role, c.event, c.told(v)))
}

// prober is a policy server that can be asked how it is.
type prober interface {
	Probe(context.Context) error
	Host() string
}

// probeServer asks the policy server whether it can be reached and takes the
// credential; nil when there is none.
func (b *Broker) probeServer(ctx context.Context) *wire.PolicyServer {
	server, ok := b.settings().server.(prober)
	if !ok {
		return nil
	}
	p := &wire.PolicyServer{Host: server.Host()}
	if err := server.Probe(ctx); err != nil {
		p.Fault = verdict.Cut(verdict.Clean(err.Error()), verdict.MaxReason)
	}
	return p
}
