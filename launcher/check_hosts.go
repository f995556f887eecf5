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

func (c *claude) version(ctx context.Context) (version, warning string, err error) {
	line, err := askVersion(ctx, c.name, c.client.Path, c.env.Proof())
	if err != nil {
		return "", "", err
	}
	version, _, _ = strings.Cut(line, " ")
	warning, err = host.CheckVersion(c.client.Path, line)
	return verdict.Clean(version), warning, err
}

func (c *claude) inEffect() (effect []string, faults []host.Fault) {
	how := "by the arguments of its process, which no file changes"
	if c.held {
		how = "by managed settings in " + host.DropIn
	}
	effect = []string{
		fmt.Sprintf("gate %s %s", verdict.Object(c.programs.Gate), how),
		"no settings file of a project's or user's is read; what is taken over comes from " + verdict.Object(c.user.SettingsFile),
	}
	for _, m := range c.managed {
		effect = append(effect, "managed settings "+verdict.Object(m.Path))
	}
	if c.effect.Only != "" {
		effect = append(effect, "no hooks but managed ones run, by "+verdict.Object(c.effect.Only))
	}
	return effect, slices.Concat(c.effect.Off, c.effect.Loose, c.effect.Skipped)
}

func (p *pi) version(context.Context) (version, warning string, err error) {
	warning, err = p.client.CheckVersion()
	return verdict.Clean(p.client.Version), warning, err
}

func (p *pi) inEffect() (effect []string, faults []host.Fault) {
	effect = []string{
		fmt.Sprintf("gate %s by guard's extension, from memory that nothing can write", verdict.Object(p.programs.Gate)),
		"node " + verdict.Object(p.client.Node.Path),
	}
	for _, path := range p.config.Launch.PiExtensions {
		effect = append(effect, "launch.pi_extensions loads "+verdict.Object(path))
	}
	return effect, nil
}

func (c *codex) version(ctx context.Context) (version, warning string, err error) {
	line, err := askVersion(ctx, "codex", c.client.Path, c.env.ProofCodex())
	if err != nil {
		return "", "", err
	}
	_, version, _ = strings.Cut(strings.TrimSpace(line), " ")
	warning, err = host.CheckCodexVersion(c.client.Path, line)
	return verdict.Clean(version), warning, err
}

func (c *codex) inEffect() (effect []string, faults []host.Fault) {
	how := "by the arguments of its process, which no file but an administrator's changes"
	if c.Paths.Mode == paths.System {
		how = "by an administrator's requirements"
	}
	sandbox := "the client's own sandbox"
	if c.readOnly() {
		sandbox = "read-only sandbox (launch.codex_sandbox)"
	}
	return []string{fmt.Sprintf("gate %s %s; %s", verdict.Object(c.programs.Gate), how, sandbox)}, nil
}
