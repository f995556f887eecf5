package testproc

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/clock"
)

// Notify is the socket on which a service manager hears its services, as
// NOTIFY_SOCKET names it.
type Notify struct {
	Path string
	conn *net.UnixConn
}

// ListenNotify makes one that ends with the test, at a path or, without one, in a
// directory of its own.
func ListenNotify(t testing.TB, path string) *Notify {
	t.Helper()
	if path == "" {
		dir, err := os.MkdirTemp("", "guard-sd-") // short: a socket's path may have 107 bytes
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		path = filepath.Join(dir, "notify")
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &Notify{path, conn}
}

// Next returns the next message and the descriptors that came with it; "" when
// none comes within the time.
func (n *Notify) Next(within time.Duration) (text string, fds []int) {
	b, oob := make([]byte, 4096), make([]byte, 256)
	_ = n.conn.SetReadDeadline(clock.Deadline(within))
	size, oobn, _, _, err := n.conn.ReadMsgUnix(b, oob)
	if err != nil {
		return "", nil
	}
	if msgs, err := unix.ParseSocketControlMessage(oob[:oobn]); err == nil && len(msgs) == 1 {
		fds, _ = unix.ParseUnixRights(&msgs[0])
	}
	return string(b[:size]), fds
}
