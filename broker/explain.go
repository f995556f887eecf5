package broker

import (
	"cmp"
	"context"
	"path/filepath"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/broker/session"
	"leaseguard.internal/gate/dialect"
	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/runtimes"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// hostOf is the host in whose words a runtime asks.
var hostOf = map[string]wire.Host{
	"claude": wire.HostClaude, "claudex": wire.HostClaude, "pi": wire.HostPi, "codex": wire.HostCodex,
}

// anyLease stands for the state of a lease that makes no difference.
const anyLease = "any"

// explain judges a call that nobody made, by the functions that judge calls, and
// does nothing: no event is heard, nothing is recorded, counted or inserted. by
// looks at the machines in the place where a call has its checkpoints taken. s is
// the session whose call it would be; nil: anybody's.
func (b *Broker) explain(ctx context.Context, s *session.Session, path []session.Step, ctl wire.Control, input []byte, by confirm) wire.Result {
	q, werr := b.question(s, ctl, input)
	if werr != nil {
		return wire.Result{Error: werr}
	}
	c := &call{set: b.settings(), host: hostOf[q.Runtime], role: wire.RoleDecide, session: s, path: path}
	out := &wire.Explained{Tool: q.Tool, Runtime: q.Runtime, Targets: []string{}, Policies: []wire.ForeseenPolicy{}}
	if s != nil {
		out.Session = s.ID
	}
	event, err := dialect.Question(c.host, q.Tool, input, q.Dir)
	if err != nil {
		out.Answers = []wire.Foreseen{foreseen(c, anyLease, unreadable(err))}
		return wire.Result{Explained: out}
	}
	c.event = event
	out.Answers = b.answers(ctx, c, by)
	if last := out.Answers[len(out.Answers)-1]; last.Verdict != verdict.Deny.String() {
		out.Policies = b.foreseenPolicies(c)
	}
	out.Class, out.Targets = c.class, append(out.Targets, c.targets...)
	if e, listed := c.set.catalog.Find(q.Tool); listed {
		out.Entry = &wire.Entry{Match: e.Match, Class: e.Class.String(), Line: e.Line}
	}
	out.Builtin = map[dialect.BuiltinKind]string{dialect.ChangesSelf: "changes_self", dialect.LeaseOnlyTool: "lease_only"}[dialect.Builtin(c.host, q.Tool)]
	return wire.Result{Explained: out}
}

// question checks what is asked, and fills in what was left out.
func (b *Broker) question(s *session.Session, ctl wire.Control, input []byte) (wire.Explain, *wire.Error) {
	bad := func(cause, next string) *wire.Error {
		return wireError(verdict.BadRequest, "explaining", "a call", cause, next)
	}
	if ctl.Explain == nil || len(input) > wire.MaxContext {
		return wire.Explain{}, bad("no tool is named, or its input is over "+itoa(wire.MaxContext)+" bytes", "guard explain --help")
	}
	q := *ctl.Explain
	own := "claude"
	if s != nil && s.Runtime != runtimes.Exec {
		own = s.Runtime
	}
	q.Runtime = cmp.Or(q.Runtime, own)
	if hostOf[q.Runtime] == 0 {
		return q, bad(verdict.Object(q.Runtime)+" is no runtime with a gate of its own", "use one of claude, claudex, pi and codex")
	}
	if !filepath.IsAbs(q.Dir) {
		q.Dir = "/"
	}
	switch {
	case s == nil:
	case !s.Launched():
		return q, wireError(verdict.Proving, "explaining", "a call", "session "+s.ID+" has not started its runtime yet", "wait until guard launch has started it")
	case s.Runtime != runtimes.Exec && hostOf[q.Runtime] != hostOf[s.Runtime]:
		return q, bad("session "+s.ID+" is of the runtime "+s.Runtime, "leave --runtime out")
	}
	return q, nil
}

// answers are what the call would get: one, or one without a lease and one with.
func (b *Broker) answers(ctx context.Context, c *call, by confirm) []wire.Foreseen {
	if c.session != nil {
		if v, final := b.identityRows(c); final {
			return []wire.Foreseen{foreseen(c, anyLease, v)}
		}
	}
	if v, final := b.freeRows(c); final {
		return []wire.Foreseen{foreseen(c, anyLease, v)}
	}
	var all []wire.Foreseen
	if c.session == nil {
		v := refuse(verdict.LeaseUnverified, "judging", verdict.Object(c.event.Tool), "the session's lease isn't verified", "guard approve SESSION (an operator runs it, outside the session)")
		all = append(all, foreseen(c, lease.Unverified.String(), v))
	} else if l := c.session.Lease(b.opt.Clock.Now()); l.State() != lease.Verified {
		all = append(all, foreseen(c, l.State().String(), leaseVerdict(c.event.Tool, c.session, l)))
	}
	return append(all, foreseen(c, lease.Verified.String(), b.protect(ctx, c, by)))
}

// look asks the ZVM what it would say to a checkpoint of the machines.
func (b *Broker) look(ctx context.Context, c *call, targets []catalog.Target) verdict.Verdict {
	if c.set.checkpoints == nil {
		return withoutZVM(targets[0].Name)
	}
	infos, err := c.set.checkpoints.Look(ctx, targets)
	c.checkpoints = infos
	if err != nil {
		return b.checkpointRefused(c, targets, err)
	}
	return pass(verdict.CheckpointConfirmed)
}

// unasked leaves the ZVM alone: a session could have it work by explaining.
func (b *Broker) unasked(_ context.Context, c *call, targets []catalog.Target) verdict.Verdict {
	if c.set.checkpoints == nil {
		return withoutZVM(targets[0].Name)
	}
	return pass(verdict.CheckpointConfirmed)
}

// foreseen is an answer as the host would get it: some have no way to ask.
func foreseen(c *call, state string, v verdict.Verdict) wire.Foreseen {
	f := wire.Foreseen{
		Lease: state, Verdict: v.Kind.String(), Code: string(v.Code), Row: rows[v.Code], Reason: v.Reason,
		Checkpoints: append([]wire.CheckpointInfo{}, c.checkpoints...),
	}
	f.Unasked = v.Code == verdict.CheckpointConfirmed && len(c.checkpoints) == 0
	if v.Kind == verdict.Ask && dialect.Render(c.host, c.role, c.event, v).Exit != 0 {
		f.Verdict = verdict.Deny.String()
		f.Row += "; this host can't ask a person, so it denies"
	}
	return f
}

// rows are the rows of the decision table that a call can be explained by.
var rows = map[verdict.Code]string{
	verdict.Malformed:             "the payload isn't understood",
	verdict.GenerationStale:       "the caller belongs to an earlier launch of the session",
	verdict.NestedRuntime:         "another runtime below the session's own asks",
	verdict.GuardFile:             "a read of guard's own files",
	verdict.ReadClass:             "the tool only reads: no lease is needed",
	verdict.Recover:               "the session's own recovery tool",
	verdict.LeaseUnverified:       "the lease isn't VERIFIED",
	verdict.LeasePending:          "the lease isn't VERIFIED: its promotion is pending",
	verdict.LeaseExpired:          "the lease isn't VERIFIED: it has expired",
	verdict.LeaseRevoked:          "the lease isn't VERIFIED: it was revoked",
	verdict.CatalogReadOnly:       "VERIFIED, and the catalog says that the tool only reads",
	verdict.LeaseOnly:             "VERIFIED, and the host's own tool changes no machine",
	verdict.SelfUnprotected:       `VERIFIED, and checkpoint.self = "none": this host is changed without a checkpoint`,
	verdict.CheckpointConfirmed:   "VERIFIED, and a checkpoint of every machine is confirmed first",
	verdict.CheckpointFailed:      "a checkpoint can't be confirmed",
	verdict.CheckpointUnsupported: "the machine is protected where no tag reaches the journal",
	verdict.CheckpointTimeout:     "the ZVM takes too long",
	verdict.VMAmbiguous:           "the name fits several machines",
	verdict.VMUnknown:             "Zerto doesn't know the machine: checkpoint.unknown_vm decides",
	verdict.VMMissing:             "the arguments name no machine: checkpoint.no_vm decides",
	verdict.ToolUnlisted:          "no [[tool]] of the catalog names the tool: checkpoint.unlisted decides",
}
