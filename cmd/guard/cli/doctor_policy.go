package cli

import (
	"fmt"

	"leaseguard.internal/internal/hookfile"
	"leaseguard.internal/internal/hookrun"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// judgePolicyServer says what the policy server answered to the broker's knock.
// While it can't be used every call of every session is denied.
func (d *doctor) judgePolicyServer(p *wire.PolicyServer) {
	switch {
	case p == nil:
	case p.Fault != "":
		d.fail("policies", "the policy server "+verdict.Object(p.Host)+" can't be used, so that calls and prompts are denied: "+verdict.Clean(p.Fault),
			"set [policy_server] right in "+verdict.Object(d.paths.Config)+" or repair the server, then: "+reload(d.paths.Mode))
	default:
		d.ok("policies", "the policy server "+verdict.Object(p.Host)+" answers and takes the credential")
	}
	if p == nil || d.config == nil || d.config.PolicyServer == nil || d.paths.Mode != paths.User {
		return
	}
	if s := d.config.PolicyServer; s.TokenFile != "" || len(s.TokenCommand) > 0 {
		d.warned("policies", "user mode: agents have your uid and can read the policy server's token", "give that account no right but to have calls judged; or: sudo guard init --system")
	}
}

// policyHooks says which policy hooks deny calls by the way that they stand.
func (d *doctor) policyHooks() {
	h, err := d.hooksOf(d.broker)
	if err != nil {
		d.unknown("policies", "policy hooks: "+saidOnce(err), restart(d.status.Broker.Mode))
		return
	}
	good := 0
	for _, s := range append([]wire.HookSource{h.User}, h.Projects...) {
		if s.Fault != "" {
			d.fail("policies", "policy hooks that can't be read, so that what changes something is denied: "+verdict.Clean(s.Fault), "correct "+verdict.Object(s.Path)+"; a project's file counts from the next launch on")
		}
	}
	for _, def := range h.Definitions {
		// What is trusted of a project is in force without its file, the user's isn't.
		inForce := !def.Replaced && (def.InFile && def.Enabled || def.Identity != hookfile.UserIdentity && def.Trust != nil)
		if inForce && d.policyHook(def, h.Untrusted == "skip") {
			good++
		}
	}
	if good > 0 {
		d.ok("policies", fmt.Sprintf("policy hooks that run what was trusted: %d", good))
	}
}

// policyHook says of one what keeps it from judging.
func (d *doctor) policyHook(def wire.HookDefinition, skip bool) (good bool) {
	name := "policy hook " + verdict.Object(def.ID) + " of " + verdict.Object(def.Identity)
	fix := "guard hooks trust " + bare(def.ID) + "; or remove it from its file"
	if def.Trust == nil {
		becomes := "calls that it matches are denied"
		if skip {
			becomes = "it is skipped (hooks.untrusted)"
		}
		d.warned("policies", name+" is not trusted: "+becomes, fix)
		return false
	}
	files, err := hookrun.Digest(def.Command, def.Args)
	switch {
	case err != nil:
		d.warned("policies", name+": what it runs can't be looked at: "+verdict.Clean(err.Error()), "put the program back; or: guard hooks revoke "+bare(def.ID))
	case !wire.SameFiles(files, def.Trust.Files):
		d.fail("policies", name+": what it runs has changed since it was trusted, so that calls that it matches are denied", fix)
	default:
		return true
	}
	return false
}
