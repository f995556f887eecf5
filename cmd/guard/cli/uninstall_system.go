package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/paths"
	host "leaseguard.internal/launcher/runtime"
	"leaseguard.internal/packaging"
)

// uninstallSystem takes a machine out of system mode: what guard init --system
// made goes, and what a package installed stays the package manager's.
func (c Command) uninstallSystem(ctx context.Context, purge, yes bool) error {
	if uid() != 0 {
		return errors.New("taking this machine out of system mode: it needs root; run: sudo guard uninstall --system")
	}
	if err := c.outside(ctx); err != nil {
		return err
	}
	doomed := systemFiles()
	if purge {
		doomed = append(doomed, brokerHome, filepath.Dir(systemConfig))
	}
	if !yes {
		if err := c.confirm(append(slices.Clone(doomed), codexLines()...)); err != nil {
			return err
		}
	}
	if err := c.stopSystem(ctx); err != nil {
		return err
	}
	hooks := marked(host.DropIn)
	if err := c.remove(doomed); err != nil {
		return err
	}
	if hooks {
		closeDirs()
	}
	if err := errors.Join(c.removeCodex(), releaseGate()); err != nil {
		return err
	}
	if paths.Managed() {
		if err := runSystem("systemctl", "daemon-reload"); err != nil {
			return err
		}
	}
	c.afterUninstall(purge)
	return nil
}

// systemFiles are what guard init --system writes, as far as they are its own.
// guard.toml comes first: from then on nothing starts in system mode.
func systemFiles() []string {
	list := []string{systemConfig, systemConfig + oldSuffix, systemSecret, systemCA}
	written := []string{host.DropIn, writtenAccounts, writtenDirs}
	for _, unit := range packaging.Units() {
		written = append(written, filepath.Join(writtenUnits, unit))
	}
	for _, path := range written {
		if marked(path) {
			list = append(list, path)
		}
	}
	return append(list, "/run/guard")
}

// stopSystem ends the broker and keeps it from coming back. Units that aren't
// there have nothing to stop.
func (c Command) stopSystem(ctx context.Context) error {
	if paths.Managed() {
		for _, args := range [][]string{
			{"disable", "--now", packaging.BrokerSocket, packaging.OperatorSocket},
			{"stop", packaging.BrokerService},
		} {
			if err := runSystem("systemctl", args...); err != nil && hasUnits() {
				return err
			}
		}
		return nil
	}
	// Half an installation has no broker to ask, and what listens may be none of ours.
	p, err := c.paths()
	if err != nil || p.Mode != paths.System {
		return nil //nolint:nilerr // nothing of ours to stop
	}
	if up, err := client.Running(ctx, p); err != nil || !up {
		return nil //nolint:nilerr // likewise
	}
	return c.stop(ctx, p)
}

func hasUnits() bool {
	for _, dir := range []string{packagedUnits, writtenUnits} {
		if _, err := os.Lstat(filepath.Join(dir, packaging.BrokerService)); err == nil {
			return true
		}
	}
	return false
}

// releaseGate takes the gate's group back where init gave it. A package's gate
// is the package's.
func releaseGate() error {
	if _, err := os.Lstat(filepath.Join(packagedUnits, packaging.BrokerService)); err == nil {
		return nil
	}
	programs, err := client.Siblings()
	if err != nil {
		return err
	}
	err = setOwner(programs.Gate, "root", "root", 0o755, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (c Command) afterUninstall(purge bool) {
	fmt.Fprintln(c.Stdout, "system mode is off; sessions that still run stay gated: with no broker their gate denies every call")
	if _, err := os.Lstat(brokerHome); err == nil && !purge {
		fmt.Fprintf(c.Stdout, "kept: %q with audit and store; guard uninstall --system --purge removes it\n", brokerHome)
	}
	fmt.Fprintf(c.Stdout, "kept: user and groups (%s), whose numbers may stand on exported records; and the programs\n", paths.SystemUser)
}
