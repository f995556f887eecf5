package cli

import (
	"fmt"
	"strings"
	"time"

	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// maxSkew is how far the ZVM's clock may be from ours. No decision compares the
// two; people do, who look for a checkpoint by the audit's time.
const maxSkew = time.Minute

// inspect has the broker ask the ZVM about itself and about each machine that
// guard.toml names, and the policy server whether it answers. Nobody else uses
// their credentials.
func (d *doctor) inspect() {
	if d.status == nil && d.config != nil && d.config.PolicyServer != nil {
		d.unknown("policies", "no broker has asked the policy server", "guard doctor --start-broker")
	}
	switch {
	case d.status == nil && (d.config == nil || d.config.ZVM != nil):
		d.unknown("zvm", "no broker has asked it", "guard doctor --start-broker")
		return
	case d.status == nil:
		return
	}
	res, err := d.broker.Do(d.ctx, wire.Control{Verb: wire.VerbInspect}, nil)
	if err != nil {
		d.unknown("zvm", saidOnce(err), restart(d.status.Broker.Mode))
		return
	}
	d.proofs, d.known = res.Proofs, true
	if res.ZVM != nil {
		d.judgeZVM(*res.ZVM)
	}
	d.judgePolicyServer(res.Policies)
	d.policyHooks()
}

func (d *doctor) judgeZVM(z wire.ZVM) {
	if z.URL == "" {
		return // configuration has said so
	}
	if z.Fault != nil {
		d.fault("zvm", verdict.Clean(z.URL)+": ", *z.Fault)
		return
	}
	skew := time.Duration(z.SkewMS) * time.Millisecond
	text := fmt.Sprintf("%s answers, its certificate is the trusted one, it takes the credential, and its clock is %s ours", verdict.Clean(z.URL), apart(skew))
	if skew.Abs() > maxSkew {
		d.warned("zvm", text, "set the clocks of this host and of the ZVM by the same NTP server: times of checkpoints are the ZVM's, those of the audit are this host's")
	} else {
		d.ok("zvm", text)
	}
	for _, m := range z.Machines {
		d.machine(m)
	}
}

func apart(skew time.Duration) string {
	skew = skew.Round(time.Second)
	switch {
	case skew > 0:
		return skew.String() + " ahead of"
	case skew < 0:
		return (-skew).String() + " behind"
	}
	return "that of"
}

// machine says whether a checkpoint of one would be confirmed.
func (d *doctor) machine(m wire.Machine) {
	who := verdict.Object(m.Name) + " of " + verdict.Clean(m.From)
	switch {
	case m.Fault != nil:
		d.fault("machines", who+": ", *m.Fault)
	case len(m.VPGs) > 1:
		d.warned("machines", fmt.Sprintf("%s is in %d VPGs (%s): each change waits for a checkpoint in every one", who, len(m.VPGs), objects(m.VPGs)), `name one by vpg = "NAME" in its [[tool]], if one is enough`)
	default:
		d.ok("machines", who+" is protected in VPG "+objects(m.VPGs)+" and takes tags")
	}
}

// fault is a refusal of the broker's. What took too long says nothing of what is
// wrong.
func (d *doctor) fault(area, before string, f wire.Fault) {
	text := before + verdict.Clean(strings.Join([]string{f.Code, f.Object, f.Cause}, ": "))
	if f.Code == string(verdict.CheckpointTimeout) {
		d.unknown(area, text, verdict.Clean(f.Next))
		return
	}
	d.fail(area, text, verdict.Clean(f.Next))
}
