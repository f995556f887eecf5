package launcher

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"leaseguard.internal/internal/safepath"
	"leaseguard.internal/internal/verdict"
	host "leaseguard.internal/launcher/runtime"
)

func (c *claude) version(ctx context.Context) (version, warning string, err error) {
	if os.Geteuid() == 0 {
		if err := safepath.File(c.client.Path, 0); err != nil { // whoever may change it would be root
			return "", "", refuse(verdict.WiringUnproved, "asking for its version", c.client.Path, "root starts no program that others may change: "+err.Error(), "run guard doctor as the user that launches it")
		}
	}
	line, err := c.versionLine(ctx)
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
