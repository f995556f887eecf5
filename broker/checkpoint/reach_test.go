package checkpoint

import (
	"context"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"leaseguard.internal/internal/zerto"
)

// TestRemedyWithoutAConnection: who can't reach the ZVM is told to look at its
// address, and not to wait.
func TestRemedyWithoutAConnection(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err  error
		next string
	}{
		"nobody listens": {&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}, nextReach},
		"no such name":   {&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Name: "zvm", IsNotFound: true}}, nextReach},
		"reset later":    {&net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}, nextLater},
		"cut":            {io.ErrUnexpectedEOF, nextLater},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := fmt.Errorf("asking: %w", &zerto.Error{Op: "looking up", Err: tt.err})
			if r := fromError(context.Background(), "VM \"a\"", err); r.Next != tt.next {
				t.Errorf("next %q, want %q", r.Next, tt.next)
			}
		})
	}
}
