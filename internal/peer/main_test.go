package peer

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"leaseguard.internal/internal/testproc"
)

func TestMain(m *testing.M) {
	testproc.Enter()
	if os.Getenv(playsBroker) != "" {
		os.Exit(playBroker())
	}
	goleak.VerifyTestMain(m)
}

// onKernels runs a test as this kernel can it, and as older ones could.
func onKernels(t *testing.T, test func(t *testing.T, k features)) {
	t.Helper()
	now, err := kernel()
	if err != nil {
		t.Fatal(err)
	}
	kernels := []struct {
		name string
		only features
	}{
		{"this kernel", features{true, true, true, true}},
		{"without SO_PASSRIGHTS", features{true, true, true, false}},
		{"without PIDFD_GET_INFO", features{true, true, false, false}},
		{"without pidfs", features{true, false, false, false}},
		{"pidfd_open alone", features{}},
	}
	for _, k := range kernels {
		t.Run(k.name, func(t *testing.T) {
			test(t, features{
				peerPidfd:  now.peerPidfd && k.only.peerPidfd,
				pidfs:      now.pidfs && k.only.pidfs,
				getInfo:    now.getInfo && k.only.getInfo,
				passRights: now.passRights && k.only.passRights,
			})
		})
	}
}

// bench is a listener and a zoo to connect to it.
type bench struct {
	*testproc.Zoo
	t    *testing.T
	path string
	l    *Listener
}

func newBench(t *testing.T, k features) *bench {
	t.Helper()
	zoo := testproc.New(t)
	path := filepath.Join(zoo.Dir(), "s")
	l, err := listen(k, path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return &bench{Zoo: zoo, t: t, path: path, l: l}
}

// accept takes the next connection, which ends with the test.
func (b *bench) accept() *Conn {
	b.t.Helper()
	c, err := b.l.Accept()
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = c.Close() })
	return c
}

// client starts a process that is connected and authenticated.
func (b *bench) client() (*testproc.Proc, *Conn, Peer) {
	b.t.Helper()
	p := b.Start()
	p.Connect(b.path)
	c := b.accept()
	who, err := c.Authenticate()
	if err != nil {
		b.t.Fatal(err)
	}
	return p, c, who
}

// mustOpen opens a process, which is closed with the test.
func mustOpen(t *testing.T, k features, pid int) *Process {
	t.Helper()
	p, err := open(k, pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// read reads once.
func read(c net.Conn) (string, error) {
	b := make([]byte, 100)
	n, err := c.Read(b)
	return string(b[:n]), err
}

// openFiles counts this process's descriptors.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// reuse makes a process with the pid, which must be free, or gives up: other
// programs of the machine take pids too, and only root may choose.
func reuse(z *testproc.Zoo, pid int) *testproc.Proc {
	for range 40 {
		if os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(fmt.Sprint(pid-1)), 0) != nil {
			return nil
		}
		if p := z.Start(); p.PID == pid {
			return p
		}
	}
	return nil
}
