package peer

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// What a process goes by is its own to choose, and readable for everybody.
func TestNames(t *testing.T) {
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = self.Close() }()
	names, err := self.Names()
	if err != nil || len(names) != 2 || names[1] != os.Args[0] || !strings.HasPrefix(os.Args[0][strings.LastIndex(os.Args[0], "/")+1:], names[0]) {
		t.Errorf("our own names: %q, %v; want those of %q", names, err, os.Args[0])
	}
	cmd := &exec.Cmd{Path: "/bin/cat", Args: []string{"claude" + strings.Repeat(" x", 10_000), "-"}}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = in.Close(), cmd.Wait() }()
	// In the midst of exec it has a new name and no words yet.
	if _, err := in.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	p, err := Open(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	names, err = p.Names()
	if err != nil || !slices.Contains(names, "cat") || len(names[1]) > 4096 || !strings.HasPrefix(names[1], "claude x x") {
		t.Errorf("names of another: %.40q, %v", names, err)
	}
	_ = in.Close()
	_ = cmd.Wait()
	if names, err := p.Names(); !errors.Is(err, ErrGone) || names != nil {
		t.Errorf("names of nobody: %q, %v", names, err)
	}
	if _, err := (*Process)(nil).Names(); !errors.Is(err, ErrGone) {
		t.Errorf("of no process: %v", err)
	}
}
