package cli

import (
	"net"
	"os"
	"testing"
)

// TestCompletionDoesNotWait: a broker that takes the connection and says nothing
// leaves the shell without sessions, not without a prompt.
func TestCompletionDoesNotWait(t *testing.T) {
	h := newHome(t)
	if err := os.Mkdir(h.paths.RunDir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", h.paths.OperatorSocket)
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
	if got := h.guard("", "__complete", "approve", ""); got.code != ExitDone || got.out != ":4\n" {
		t.Errorf("%+v", got)
	}
	_ = (<-asked).Close() // it was asked at all
}
