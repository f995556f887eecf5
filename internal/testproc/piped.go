package testproc

import (
	"io"
	"os/exec"
	"testing"
)

// Piped starts a program with pipes as its stdin and stdout. Who started it ends
// it.
func Piped(t testing.TB, cmd *exec.Cmd) (in io.WriteCloser, out io.ReadCloser) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err == nil {
		out, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return in, out
}
