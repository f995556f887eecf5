package main

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
)

// others compares the gate with hooks in languages that hooks are written in. It
// returns how many times longer than the gate the node hook takes.
func (h *harness) others(rounds int, stdout io.Writer) (node float64, err error) {
	interpreter, err := ask("node", "-p", "process.execPath")
	if err != nil {
		return 0, fmt.Errorf("finding node: %w; it comes with the package npm", err)
	}
	if node, err = h.beside(stdout, rounds, "node", interpreter, "hook.js"); err != nil {
		return 0, err
	}
	if _, err := exec.LookPath("python3"); err != nil {
		fmt.Fprintln(stdout, "no python3 on this machine")
		return node, nil //nolint:nilerr // nothing is held of it
	}
	if interpreter, err = ask("python3", "-c", "import sys; print(sys.executable)"); err != nil {
		return 0, fmt.Errorf("finding python3's own program: %w", err)
	}
	_, err = h.beside(stdout, rounds, "python3", interpreter, "hook.py")
	return node, err
}

// ask has an interpreter name its own program: what PATH finds may be a script
// that starts it.
func ask(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).Output() //nolint:gosec // fixed names
	return strings.TrimSpace(string(out)), err
}

func (h *harness) beside(stdout io.Writer, rounds int, name, interpreter, script string) (float64, error) {
	s, err := h.compare(rounds, h.gate(), []string{interpreter, filepath.Join("bench", "hooks", script), h.socket})
	if err != nil {
		return 0, fmt.Errorf("starting the %s hook: %w", name, err)
	}
	s.second.row(stdout, "hook in "+name)
	return s.ratio, nil
}
