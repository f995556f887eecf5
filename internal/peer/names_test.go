package peer

import (
	"errors"
	"os/exec"
	"testing"

	"leaseguard.internal/internal/testproc"
)

// What a process goes by is its own to choose, and readable for everybody.
func TestName(t *testing.T) {
	cmd := &exec.Cmd{Path: "/bin/cat", Args: []string{"claude", "-"}}
	in, out := testproc.Piped(t, cmd)
	defer func() { _, _ = in.Close(), cmd.Wait() }()
	if _, err := in.Write([]byte("x")); err != nil { // it has its name once it answers
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
	if name, err := p.Name(); err != nil || name != "cat" {
		t.Errorf("name of another: %q, %v", name, err)
	}
	_ = in.Close()
	_ = cmd.Wait()
	if name, err := p.Name(); !errors.Is(err, ErrGone) || name != "" {
		t.Errorf("name of nobody: %q, %v", name, err)
	}
	if _, err := (*Process)(nil).Name(); !errors.Is(err, ErrGone) {
		t.Errorf("of no process: %v", err)
	}
}
