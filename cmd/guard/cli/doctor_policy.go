package cli

import (
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
			"set [policy_server] right in "+verdict.Object(d.paths.Config)+" or repair the server, then: "+d.reload())
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
