package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/safepath"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
	"leaseguard.internal/packaging"
)

// Where the parts of system mode are. packaged is a package's place, written
// the one for what guard init --system writes.
const (
	packagedUnits = "/usr/lib/systemd/system"
	writtenUnits  = "/etc/systemd/system"
	packagedDirs  = "/usr/lib/tmpfiles.d/guard.conf"
	writtenDirs   = "/etc/tmpfiles.d/guard.conf"
)

// initSystem puts a machine into system mode: accounts, directories, the gate's
// group, units, and last guard.toml, whose presence is the switch. What is there
// already stays, so that it can be run again after whatever stopped it.
func (c Command) initSystem(ctx context.Context, in initFlags, answered bool) error {
	if uid() != 0 && !in.dry {
		return errors.New("setting up system mode: it needs root; run: sudo guard init --system (--dry-run shows what it would do)")
	}
	if err := c.outside(ctx); err != nil {
		return err
	}
	programs, err := installedPrograms()
	if err != nil {
		return err
	}
	settings, err := c.settingSteps(in, answered)
	if err != nil {
		return err
	}
	var steps []step
	steps = append(steps, c.accountSteps()...)
	for _, d := range packaging.ParseDirectories() {
		steps = append(steps, ownerStep(d.Path, d.User, d.Group, d.Mode, true))
	}
	steps = append(steps, c.copySteps(packagedDirs, writtenDirs, packaging.Directories())...)
	steps = append(steps, ownerStep(programs.Gate, "root", paths.GateGroup, 0o2755, false))
	for _, name := range packaging.Units() {
		text := packaging.Unit(name, filepath.Dir(programs.Guard))
		steps = append(steps, c.copySteps(filepath.Join(packagedUnits, name), filepath.Join(writtenUnits, name), text)...)
	}
	steps = append(steps, settings...)
	if paths.Managed() {
		steps = append(steps, serviceStep())
	}
	steps = append(steps, c.managedStep(programs.Gate, in.force), c.codexStep(programs.Gate))
	c.warnOwn(ctx)
	if err := c.take(steps, in.dry); err != nil {
		return err
	}
	if !in.dry {
		c.systemReady()
	}
	return nil
}

// warnOwn tells of a broker of user mode that goes on beside that of the machine.
// Those of others can't be looked for: where they are is in their environments.
func (c Command) warnOwn(ctx context.Context) {
	p, err := paths.ResolveUser(c.env, uid())
	if err != nil {
		return
	}
	if up, err := client.Running(ctx, p); err == nil && up {
		c.warn([]string{fmt.Sprintf("a broker of your own runs (sockets in %s) and keeps its sessions: end them, then: guard broker stop --user", verdict.Object(p.RunDir))})
	}
}

// outside refuses a process of a session. A broker that runs says so itself; one
// that doesn't answer is no reason not to set it up.
func (c Command) outside(ctx context.Context) error {
	_, err := c.operable(ctx, false)
	if errors.As(err, new(*wire.Error)) || errors.Is(err, client.ErrInsideSession) {
		return err
	}
	return nil
}

// hiddenDirs are what the broker's unit hides from it.
var hiddenDirs = []string{"/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/"}

// installedPrograms are guard's programs, where everybody can start and only
// root change them.
func installedPrograms() (client.Programs, error) {
	p, err := client.Siblings()
	if err != nil {
		return p, err
	}
	const remedy = "put guard's programs as root into one directory such as /usr/local/bin, then run this again from there"
	for _, dir := range hiddenDirs {
		if strings.HasPrefix(p.Guard, dir) {
			return p, fmt.Errorf("setting up system mode: %q is below %q, where the broker's own user can't see it; %s", p.Guard, dir, remedy)
		}
	}
	for _, path := range []string{p.Guard, p.Broker, p.Gate} {
		if err := safepath.File(path, 0); err != nil {
			return p, fmt.Errorf("setting up system mode: %w; %s", err, remedy)
		}
	}
	return p, nil
}

// serviceStep has systemd listen, and start the broker once, so that whatever
// keeps it from starting is found now and not by the first session.
func serviceStep() step {
	sockets := []string{packaging.BrokerSocket, packaging.OperatorSocket}
	with := func(args ...string) []string { return append(args, sockets...) }
	return step{
		what: "sockets that listen now and after each boot, and a broker behind them",
		done: func() (bool, error) {
			return runSystem("systemctl", with("is-enabled")...) == nil &&
				runSystem("systemctl", append(with("is-active"), packaging.BrokerService)...) == nil, nil
		},
		do: func() error {
			for _, args := range [][]string{{"daemon-reload"}, with("enable", "--now"), {"start", packaging.BrokerService}} {
				if err := runSystem("systemctl", args...); err != nil {
					return fmt.Errorf("%w; see: journalctl -u guard-broker, then run this again; until then every call is denied", err)
				}
			}
			return nil
		},
	}
}

// systemReady says what comes next.
func (c Command) systemReady() {
	fmt.Fprintf(c.Stdout, "system mode is on: %s\n", verdict.Object(systemConfig))
	if !paths.Managed() {
		fmt.Fprintf(c.Stdout, "systemd doesn't run this machine: start guard-broker as user guard with its two sockets; %s shows how\n", paths.Manual("install.md"))
	}
	fmt.Fprintln(c.Stdout, "whoever had a broker of their own before ends its sessions and runs: guard broker stop --user")
	fmt.Fprintln(c.Stdout, "every Claude Code of this machine asks guard now, also one that runs already; what guard launch claude didn't start is denied")
	fmt.Fprintln(c.Stdout, "Next: usermod -aG guard-operators,guard-audit NAME, for who may approve and revoke; then, as another user: guard launch claude")
}
