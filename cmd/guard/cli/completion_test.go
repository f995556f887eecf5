package cli

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCompletionDoesNotWait: a broker that takes the connection and says nothing
// leaves the shell without sessions, not without a prompt.
func TestCompletionDoesNotWait(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "guard"), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "guard", "operator.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	asked := make(chan net.Conn, 1)
	go func() {
		if conn, err := l.Accept(); err == nil {
			asked <- conn
		}
	}()
	var out, errs bytes.Buffer
	c := Command{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Env: []string{"HOME=" + dir, "XDG_RUNTIME_DIR=" + dir}}
	if code := c.Main([]string{"__complete", "approve", ""}); code != ExitDone || out.String() != ":4\n" {
		t.Errorf("exit %d, %q, %q", code, out.String(), errs.String())
	}
	_ = (<-asked).Close() // it was asked at all
}
