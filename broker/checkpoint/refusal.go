package checkpoint

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"

	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/zerto"
)

// Refusal is why a call can't have its checkpoint. Code is one of
// checkpoint_failed, _unsupported, _gone, _timeout, vm_ambiguous and vm_unknown;
// all but the last deny whatever the operator has chosen.
type Refusal struct {
	Code   verdict.Code
	Object string // what it is about, quoted: `VPG "VPG-A"`
	Cause  string
	Next   string // the remedy
	Err    error  // the error behind it, if any
}

// Error returns code, object and cause.
func (r *Refusal) Error() string { return string(r.Code) + ": " + r.Object + ": " + r.Cause }

// Unwrap returns the error behind the refusal.
func (r *Refusal) Unwrap() error { return r.Err }

// Remedies.
const (
	nextRepeat      = "look at the VPG in the ZVM, then repeat the call"
	nextCredential  = "check client and secret in [zvm] of guard.toml, then: guard broker restart"
	nextRole        = "give the account of [zvm] the role builder (manage VPG) in the ZVM, then repeat the call"
	nextTrust       = "check zvm.url and zvm.ca_file or zvm.spki_sha256 in guard.toml, then: guard broker restart"
	nextUnsupported = "have an operator change this machine outside of guard, with a backup of its own platform"
	nextUnknown     = "correct the name, or protect the machine in Zerto, then repeat the call"
	nextIdentifier  = `name it by its identifier, with vm_kind = "identifier" for this tool in guard.toml`
	nextReach       = "see that zvm.url in guard.toml is right, and that the ZVM runs and can be reached from this host, then repeat the call"
	nextLater       = "wait until the ZVM has settled, then repeat the call"
)

func vmObject(name string) string { return "VM " + verdict.Object(name) }

func (g *group) object() string { return "VPG " + verdict.Object(g.name) }

func (g *group) failed(cause, next string) *Refusal {
	return &Refusal{Code: verdict.CheckpointFailed, Object: g.object(), Cause: cause, Next: next}
}

func unsupported(object, cause string) *Refusal {
	return &Refusal{Code: verdict.CheckpointUnsupported, Object: object, Cause: cause, Next: nextUnsupported}
}

// ended is the refusal of a call whose time is up, or that was given up.
func ended(ctx context.Context, object, cause string) *Refusal {
	r := &Refusal{Code: verdict.CheckpointTimeout, Object: object, Cause: cause, Next: nextLater, Err: ctx.Err()}
	if !errors.Is(r.Err, context.DeadlineExceeded) {
		r.Code, r.Cause = verdict.CheckpointFailed, "the call was given up"
	}
	return r
}

// fromError is the refusal for a request to the ZVM that failed.
func fromError(ctx context.Context, object string, err error) *Refusal {
	if ctx.Err() != nil {
		return ended(ctx, object, "the ZVM didn't answer in time: "+err.Error())
	}
	r := &Refusal{Code: verdict.CheckpointFailed, Object: object, Cause: err.Error(), Next: nextRepeat, Err: err}
	e, ok := errors.AsType[*zerto.Error](err)
	switch {
	case errors.Is(err, zerto.ErrUntrusted):
		r.Next = nextTrust
	case undialled(err):
		r.Next = nextReach
	case !ok:
	case e.Unauthorized():
		r.Cause, r.Next = "the ZVM refuses guard's credential: "+r.Cause, nextCredential
	case inCloud(e):
		r.Code, r.Next = verdict.CheckpointUnsupported, nextUnsupported
		r.Cause = "it answers as Zerto In-Cloud does, whose API guard doesn't speak: " + r.Cause
	case e.Status == http.StatusForbidden:
		r.Next = nextRole
	case e.Temporary():
		r.Next = nextLater
	}
	return r
}

// undialled reports whether no connection came about: the name isn't known, or
// nobody listens there.
func undialled(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// inCloud reports whether an answer is that of the other product: it accepts an
// insert with 202 and nothing else, and has errors of its own.
func inCloud(e *zerto.Error) bool {
	return e.Status == http.StatusAccepted || e.Status == http.StatusNotImplemented ||
		e.Status == http.StatusConflict && strings.Contains(e.Message, "VpgManagementTaskIsAlreadyRunning")
}
