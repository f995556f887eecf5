package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/verdict"
	host "leaseguard.internal/launcher/runtime"
)

// managedStep puts the gate's hooks among the administrator's settings of Claude,
// as a file of its own. From then on each Claude of this machine asks guard, and
// one that guard didn't launch is denied. What is there of others stays as it is;
// where it would keep the hooks from running, that is said before anything is made.
func (c Command) managedStep(gate string, again bool) step {
	return step{
		what: fmt.Sprintf("file %q, mode 0644: every Claude Code of this machine asks guard", host.DropIn),
		done: func() (bool, error) {
			want, err := c.dropIn(gate)
			if err != nil {
				return false, err
			}
			if err := managedFault(host.WithDropIn(host.ReadManaged(), want)); err != nil || want == nil || again {
				return false, err
			}
			return c.fileStep(host.DropIn, 0o644, want).done()
		},
		do: func() error {
			want, err := c.dropIn(gate)
			if err != nil {
				return err
			}
			if want == nil {
				return fmt.Errorf("writing %q: system mode isn't set up", host.DropIn)
			}
			if err := openDirs(); err != nil {
				return err
			}
			place := c.fileStep(host.DropIn, 0o644, want)
			if there, err := place.done(); there || err != nil { // another's file, which stays
				return err
			}
			return place.do()
		},
	}
}

// dropIn is the file's text, once the machine is in system mode; nil before.
func (c Command) dropIn(gate string) ([]byte, error) {
	in, err := c.systemInstall(gate)
	if in == nil || err != nil {
		return nil, err
	}
	return in.DropInText()
}

// systemInstall is the gate for hooks of the machine, once it is in system mode;
// nil before.
func (c Command) systemInstall(gate string) (*host.Install, error) {
	p, err := c.paths()
	if err != nil || p.Mode != paths.System {
		return nil, nil //nolint:nilerr // half of an installation, which the steps before this one complete
	}
	cfg, err := config.Load(p.Config, p.Mode, p.BrokerUID)
	if err != nil {
		return nil, err
	}
	return &host.Install{Gate: gate, Socket: p.BrokerSocket, BrokerUID: p.BrokerUID, Budget: cfg.Launch.Budget, Judged: cfg.PolicyServer != nil}, nil
}

// managedFault is the first thing in an administrator's files that would keep the
// hooks from running, or let others change that.
func managedFault(all []host.Managed) error {
	e := host.InEffect(all)
	faults := append(e.Off, e.Loose...)
	if e.Only == "" && e.Others != "" {
		faults = append(faults, host.Fault{File: e.Others, What: "has allowManagedHooksOnly = false, so that a project's hooks could change a call after it was judged", Next: "remove that line"})
	}
	for _, dir := range dropInDirs() {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o005 != 0o005 {
			faults = append(faults, host.Fault{File: dir, What: "can't be read by users, whose clients would leave out what is in it", Next: "chmod o+rx " + dir})
		}
	}
	if len(faults) == 0 {
		return nil
	}
	f := faults[0]
	return fmt.Errorf("having Claude ask guard: %s %s; %s, then run this again", verdict.Object(f.File), f.What, f.Next)
}

func dropInDirs() []string {
	dir := filepath.Dir(host.DropIn)
	return []string{filepath.Dir(dir), dir}
}

// openDirs makes the directories that aren't there, readable for everybody
// whatever root's umask is.
func openDirs() error {
	for _, dir := range dropInDirs() {
		err := os.Mkdir(dir, 0o755) // #nosec G301 -- every user's client reads it
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = os.Chmod(dir, 0o755) // #nosec G302 -- likewise
		}
		if err != nil {
			return fmt.Errorf("making directory %q: %w", dir, err)
		}
	}
	return nil
}

// closeDirs removes the directories of guard's file when nothing else is in them.
func closeDirs() {
	for _, dir := range slices.Backward(dropInDirs()) {
		_ = os.Remove(dir) // which refuses one that holds something
	}
}

// ours says whether guard wrote a text, and so may replace and remove it.
func ours(text []byte) bool { return bytes.HasPrefix(text, []byte(mark)) || host.IsDropIn(text) }

// marked says whether a file is one that guard wrote.
func marked(path string) bool {
	text, err := os.ReadFile(path) // #nosec G304 -- one of a few fixed names below /etc
	return err == nil && ours(text)
}
