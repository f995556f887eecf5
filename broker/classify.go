package broker

import (
	"path/filepath"
	"strings"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/broker/session"
	"leaseguard.internal/internal/lookup"
	"leaseguard.internal/internal/verdict"
)

// Classes as the record names them.
const (
	classRead    = "read"
	classMutator = "mutator"
	classRecover = "recover"
)

// observedCode is the record's code for an event that asks for no decision.
const observedCode verdict.Code = "observed"

// promptCode lets a prompt through: only a policy server judges prompts.
const promptCode verdict.Code = "prompt"

func refuse(code verdict.Code, what, object, cause, next string) verdict.Verdict {
	return verdict.Verdict{Kind: verdict.Deny, Code: code, Reason: verdict.Reason(code, what, object, cause, next)}
}

func pass(code verdict.Code) verdict.Verdict {
	return verdict.Verdict{Kind: verdict.Pass, Code: code}
}

func busyVerdict(object, cause string) verdict.Verdict {
	return refuse(verdict.BrokerBusy, "admitting a call of", object, cause, "wait for running calls to end, then make the call again")
}

// leaseVerdict says why a mutator of a session without authority is denied, and
// what would give it some.
func leaseVerdict(tool string, s *session.Session, l lease.Lease) verdict.Verdict {
	if s.Waiting() {
		return refuse(verdict.LeaseRevoked, "judging", verdict.Object(tool), lease.Parted.String()+", and has not set it up again", "end the session and launch it again")
	}
	code := verdict.LeaseUnverified
	switch {
	case l.State() == lease.Pending:
		code = verdict.LeasePending
	case l.Cause() == lease.Expired:
		code = verdict.LeaseExpired
	case l.Cause() == lease.Revoked, l.Cause() == lease.Observed, l.Cause() == lease.Replayed, l.Cause() == lease.Alarmed, l.Cause() == lease.Reloaded, l.Cause() == lease.Parted:
		code = verdict.LeaseRevoked
	}
	cause := "the session's lease is " + l.State().String() + ", " + l.Cause().String()
	if why := s.Why(); why != "" {
		cause += ": " + why
	}
	next := "guard approve " + s.ID + " (an operator runs it, outside the session)"
	if name := recoveryTool(s); name != "" {
		next = "call the tool " + name + " without arguments and do what it says; or " + next
	}
	return refuse(code, "judging", verdict.Object(tool), cause, next)
}

// guardFile names the first of the paths that a read would open inside guard's
// own configuration, state or sockets. It is hygiene and no boundary: a shell
// reads them too, and a link that the kernel doesn't have in memory goes unseen.
func (b *Broker) guardFile(c *call) (string, bool) {
	own := []string{filepath.Dir(b.opt.Paths.Config), b.opt.Paths.StateDir, b.opt.Paths.RunDir}
	for _, p := range c.event.Reads {
		for _, form := range b.spellings(c, p) {
			for _, dir := range own {
				if form == dir || strings.HasPrefix(form, dir+"/") {
					return p, true
				}
			}
		}
	}
	return "", false
}

// spellings are the absolute forms of a path that a payload names: as written,
// and with its links resolved if that asks no file system. The caller may have put
// one there that never answers.
func (b *Broker) spellings(c *call, p string) []string {
	if !filepath.IsAbs(p) {
		base := c.event.Cwd
		if !filepath.IsAbs(base) {
			base = c.session.Dir
		}
		p = filepath.Join(base, p)
	}
	forms := []string{filepath.Clean(p)}
	if real, err := lookup.Resolved(p); err == nil {
		forms = append(forms, real)
	}
	return forms
}
