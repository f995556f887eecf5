package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"leaseguard.internal/internal/safepath"
	host "leaseguard.internal/launcher/runtime"
)

// codexStep puts the gate's hooks into the administrator's requirements of Codex.
// From then on each Codex of this machine asks guard, and one that guard didn't
// launch is denied. What is there of others stays byte for byte; where guard can't
// add its lines to that, it is said before anything is made.
func (c Command) codexStep(gate string) step {
	return step{
		what: fmt.Sprintf("lines in %q: every Codex of this machine asks guard", host.CodexRequirements),
		done: func() (bool, error) {
			old, want, err := c.requirements(gate)
			return err == nil && want != nil && bytes.Equal(old, want), err
		},
		do: func() error {
			_, want, err := c.requirements(gate)
			if err == nil && want == nil {
				err = fmt.Errorf("writing %q: system mode isn't set up", host.CodexRequirements)
			}
			if err != nil {
				return err
			}
			return c.fileStep(host.CodexRequirements, 0o644, want).do()
		},
	}
}

// requirements are the file's bytes as they are and as they are to be; the latter
// nil while the machine isn't in system mode yet.
func (c Command) requirements(gate string) (old, want []byte, err error) {
	if old, err = readRequirements(); err != nil {
		return nil, nil, err
	}
	in, err := c.systemInstall(gate)
	if err != nil || in == nil {
		// What keeps the lines out is said all the same.
		_, fault := host.CodexInstall{}.Requirements(old)
		return old, nil, errors.Join(err, fault)
	}
	want, err = host.CodexInstall{Install: *in, Managed: true}.Requirements(old)
	return old, want, err
}

// readRequirements reads a file that only root may change, or none.
func readRequirements() ([]byte, error) {
	text, err := os.ReadFile(host.CodexRequirements)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = safepath.File(host.CodexRequirements, 0)
	}
	if err == nil {
		if info, lerr := os.Lstat(host.CodexRequirements); lerr != nil || !info.Mode().IsRegular() {
			err = fmt.Errorf("%q is a link: put the file itself there", host.CodexRequirements)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the administrator's requirements of Codex: %w", err)
	}
	return text, nil
}

// codexLines is what uninstall takes out of the file, for people.
func codexLines() []string {
	old, err := readRequirements()
	if rest, other := host.WithoutRequirements(old); err != nil || other != nil || bytes.Equal(rest, old) {
		return nil
	}
	return []string{"guard's lines in " + host.CodexRequirements}
}

// removeCodex takes guard's lines out again. A file with nothing else in it goes.
func (c Command) removeCodex() error {
	old, err := readRequirements()
	if err != nil {
		return err
	}
	rest, err := host.WithoutRequirements(old)
	if err != nil || bytes.Equal(rest, old) {
		return err
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		if err := c.fileStep(host.CodexRequirements, 0o644, rest).do(); err != nil {
			return err
		}
		fmt.Fprintf(c.Stdout, "took guard's lines out of %q\n", host.CodexRequirements)
		return nil
	}
	if err := c.remove([]string{host.CodexRequirements}); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(host.CodexRequirements)) // which refuses one that holds something
	return nil
}
