package broker

import (
	"context"
	"errors"
	"path/filepath"

	"leaseguard.internal/broker/policy"
	"leaseguard.internal/broker/session"
	"leaseguard.internal/broker/store"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// hooksVerb serves the verbs about policy hooks. Both changes of trust need all of
// an operator's proof: trusting lets a program run, and ends the denials of a
// definition that nobody had trusted; revoking takes a rule away.
func (b *Broker) hooksVerb(ctx context.Context, p peer.Peer, ctl wire.Control, body []byte) wire.Result {
	req := wire.HooksRequest{}
	if ctl.Hooks != nil {
		req = *ctl.Hooks
	}
	if req.Dir != "" && (!filepath.IsAbs(req.Dir) || len(req.Dir) > 4096) || req.Dir == "" && len(body) > 0 {
		return wire.Result{Error: wireError(verdict.BadRequest, "reading", "the request", "its directory is not well formed", "use the guard that belongs to this broker")}
	}
	if werr := checkProject(req.Project, body); req.Dir != "" && werr != nil {
		return wire.Result{Error: werr}
	}
	look := policy.Look{Dir: req.Dir, Project: req.Project, Text: body}
	if ctl.Verb == wire.VerbHooks {
		list := b.definitions.List(look)
		list.Untrusted, list.Path = b.settings().config.Hooks.Untrusted, b.settings().config.Hooks.Path
		return wire.Result{Hooks: &list}
	}
	if !b.grants.take() { // as for approvals: room is left for those that revoke leases
		return wire.Result{Error: wireError(verdict.BrokerBusy, "running", verdict.Object(string(ctl.Verb)), "as many changes as it can hold are being written", "try again")}
	}
	defer b.grants.give()
	if _, werr := b.provePassphrase(ctx, ctl); werr != nil {
		return wire.Result{Error: werr}
	}
	if ctl.Verb == wire.VerbHooksRevoke {
		return b.revokeHook(ctx, p, req)
	}
	return b.trustHook(ctx, p, req, look)
}

// trustHook trusts a definition with the bytes that the operator has seen.
func (b *Broker) trustHook(ctx context.Context, p peer.Peer, req wire.HooksRequest, look policy.Look) wire.Result {
	const what = "trusting"
	r, known := b.definitions.Find(req.Key, look)
	object := verdict.Object(r.Definition.ID)
	switch {
	case !known:
		return wire.Result{Error: wireError(verdict.NoSuchHook, what, verdict.Object(req.Key), "no file that is known defines it any more", "guard hooks list")}
	case !r.Definition.Enabled:
		return wire.Result{Error: wireError(verdict.BadRequest, what, object, "it is disabled", `remove "enabled": false from its file, and launch the session again`)}
	}
	r.Files, r.Seen, r.At, r.By = req.Files, req.Seen, b.opt.Clock.Wall().UTC(), p.UID()
	r, err := b.definitions.Trust(ctx, r)
	switch {
	case errors.Is(err, store.ErrRevokedSince):
		return wire.Result{Error: wireError(verdict.HookRevoked, what, object, "trust was revoked since you looked at it", "look again: guard hooks trust")}
	case errors.Is(err, store.ErrTrustFull):
		return wire.Result{Error: wireError(verdict.LimitReached, what, object, err.Error(), "guard hooks revoke what is no longer needed")}
	case err != nil:
		return wire.Result{Error: wireError(verdict.StoreFailed, what, object, err.Error()+"; it may have been stored or not", "guard hooks list; guard broker restart when the store has failed")}
	}
	b.record(audit.Record{Event: audit.EventBroker, Code: "hook_trusted", CallerPID: p.PID(), Reason: hookText(r)})
	list := b.definitions.List(look)
	return wire.Result{Hooks: &list}
}

// revokeHook takes trust back. It is no fault that there is none: somebody may be
// about to give it.
func (b *Broker) revokeHook(ctx context.Context, p peer.Peer, req wire.HooksRequest) wire.Result {
	if req.Key == "" || len(req.Key) > 128 {
		return wire.Result{Error: wireError(verdict.BadRequest, "revoking trust in", verdict.Object(req.Key), "it is the key of no definition", "guard hooks list")}
	}
	was, err := b.definitions.Revoke(ctx, req.Key)
	reason := "nobody had trusted " + req.Key
	if was {
		reason = req.Key
	}
	b.record(audit.Record{Event: audit.EventBroker, Code: "hook_revoked", CallerPID: p.PID(), Reason: reason})
	if err != nil {
		return wire.Result{Error: wireError(verdict.StoreFailed, "revoking trust in", verdict.Object(req.Key), err.Error()+"; it is revoked until the broker is restarted", "make room for the state directory, then: guard broker restart, and revoke it again")}
	}
	list := b.definitions.List(policy.Look{})
	return wire.Result{Hooks: &list}
}

func hookText(r store.Trust) string {
	return verdict.Object(r.Definition.ID) + " of " + verdict.Object(r.Identity) + " as " + r.Hash()
}

// checkProject holds together what is told of a project and the bytes that came.
func checkProject(p wire.ProjectHooks, body []byte) *wire.Error {
	cause := ""
	switch p.State {
	case wire.ProjectRead:
		if len(body) > wire.MaxProject || p.Why != "" {
			cause = "a file of policy hooks has at most 1 MiB"
		}
	case wire.ProjectAbsent, wire.ProjectUnreadable, "":
		if len(body) > 0 || len(p.Why) > 4096 {
			cause = "bytes came of a file that was not read"
		}
	default:
		cause = "its state of policy hooks is unknown"
	}
	if cause == "" {
		return nil
	}
	return wireError(verdict.BadRequest, "registering", "the project's policy hooks", cause, "use the guard that belongs to this broker")
}

// adopt has the session's policy hooks known before its first call.
func (b *Broker) adopt(s *session.Session, p store.Project) {
	b.definitions.Adopt(s.ID, s.Generation, s.Dir, p.Hooks, p.Text)
}

// disown forgets them. The disk may take its time.
func (b *Broker) disown(id string, generation uint64) {
	b.definitions.Forget(id, generation)
	b.spawn(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		if err := b.store.DropProject(ctx, id, generation); err != nil {
			b.opt.Log.Warn("forgetting the project of an ended session", "session", id, "error", err)
		}
	})
}

// disownOthers forgets the projects of all that was not restored.
func (b *Broker) disownOthers(projects map[string]store.Project) {
	for id, p := range projects {
		if s := b.sessions.ByID(id); s == nil || s.Generation != p.Generation {
			b.disown(id, p.Generation)
		}
	}
}

// userHooks is the user's file of policy hooks, beside guard.toml.
func userHooks(config string) string { return filepath.Join(filepath.Dir(config), "hooks.json") }
