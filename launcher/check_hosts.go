package launcher

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/verdict"
	host "leaseguard.internal/launcher/runtime"
)

func (c *claude) version(ctx context.Context) (v versionOf, err error) {
	line, err := askVersion(ctx, c.name, c.client.Path, c.env.Proof())
	if err != nil {
		return v, err
	}
	v.text, _, _ = strings.Cut(line, " ")
	v.warning, err = host.CheckVersion(c.client.Path, line)
	return v, err
}

func (c *claude) inEffect() installed {
	how := "by the arguments of its process, which no file changes"
	if c.held {
		how = "by managed settings in " + host.DropIn
	}
	effect := []string{
		fmt.Sprintf("gate %s %s", verdict.Object(c.programs.Gate), how),
		"no settings file of a project's or user's is read; what is taken over comes from " + verdict.Object(c.user.SettingsFile),
	}
	for _, m := range c.managed {
		effect = append(effect, "managed settings "+verdict.Object(m.Path))
	}
	if c.effect.Only != "" {
		effect = append(effect, "no hooks but managed ones run, by "+verdict.Object(c.effect.Only))
	}
	faults := slices.Concat(c.effect.Off, c.effect.Loose, c.effect.Skipped)
	switch { // a launch warns of the one, and meets the other in its proof
	case c.held:
	case c.Paths.Mode == paths.System:
		faults = append(faults, host.Fault{File: host.DropIn, What: "doesn't have the gate asked on " + strings.Join(c.effect.Missing(c.install("")), ", "), Next: "as root: guard init --system"})
	case c.effect.Only != "":
		faults = append(faults, host.Fault{File: c.effect.Only, What: "lets no hooks but managed ones run, and those don't ask the gate", Next: "as root: guard init --system, or take allowManagedHooksOnly out of that file"})
	}
	return installed{effect, faults}
}

func (p *pi) version(context.Context) (v versionOf, err error) {
	v.text = p.client.Version
	v.warning, err = p.client.CheckVersion()
	return v, err
}

func (p *pi) inEffect() installed {
	effect := []string{
		fmt.Sprintf("gate %s by guard's extension, from memory that nothing can write", verdict.Object(p.programs.Gate)),
		"node " + verdict.Object(p.client.Node.Path),
	}
	for _, path := range p.config.Launch.PiExtensions {
		effect = append(effect, "launch.pi_extensions loads "+verdict.Object(path))
	}
	return installed{effect: effect}
}

func (c *codex) version(ctx context.Context) (v versionOf, err error) {
	line, err := askVersion(ctx, "codex", c.client.Path, c.env.ProofCodex())
	if err != nil {
		return v, err
	}
	_, v.text, _ = strings.Cut(strings.TrimSpace(line), " ")
	v.warning, err = host.CheckCodexVersion(c.client.Path, line)
	return v, err
}

func (c *codex) inEffect() installed {
	how := "by the arguments of its process, which no file but an administrator's changes"
	if c.required() {
		how = "by an administrator's requirements"
	}
	sandbox := "the client's own sandbox"
	if c.readOnly() {
		sandbox = "read-only sandbox (launch.codex_sandbox)"
	}
	in := installed{effect: []string{fmt.Sprintf("gate %s %s; %s", verdict.Object(c.programs.Gate), how, sandbox)}}
	if c.Paths.Mode == paths.System {
		if what := c.install("").RequiredFault(c.user); what != "" {
			in.faults = []host.Fault{{File: host.CodexRequirements, What: what, Next: "as root: guard init --system"}}
		}
	}
	return in
}
