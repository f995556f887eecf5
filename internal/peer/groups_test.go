package peer

import (
	"net"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestGroups: the effective group and all others are told, however many.
func TestGroups(t *testing.T) {
	k, err := kernel()
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, k)
	if os.Geteuid() != 0 {
		b.groupsOf(t, nil, own(t))
		t.Skip("only root can give a process other groups; CI runs this as root")
	}
	for name, others := range map[string][]uint32{
		"none": nil, "some": {7, 4294967294, 9}, "many": slices.Repeat([]uint32{70001}, 1000),
	} {
		t.Run(name, func(t *testing.T) {
			b.groupsOf(t, &syscall.Credential{Uid: 0, Gid: 65533, Groups: others}, append(slices.Clone(others), 65533))
		})
	}
}

func own(t *testing.T) []uint32 {
	t.Helper()
	groups, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	want := []uint32{uint32(os.Getegid())}
	for _, g := range groups {
		want = append(want, uint32(g))
	}
	return want
}

// groupsOf has a process with the credentials connect.
func (b *bench) groupsOf(t *testing.T, cred *syscall.Credential, want []uint32) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestGroupsConnector$")
	cmd.Env = append(os.Environ(), connectorVar+"="+b.path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close(); _ = cmd.Wait() }()
	c, err := b.l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Groups(); err == nil {
		t.Error("groups of a peer that isn't authenticated")
	}
	if _, err := c.Authenticate(); err != nil {
		t.Fatal(err)
	}
	got, err := c.Groups()
	slices.Sort(got)
	slices.Sort(want)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("Groups = %v, %v; want %v", got, err, want)
	}
}

const connectorVar = "PEER_TEST_CONNECT"

// TestGroupsConnector is no test: it is the process that connects, and stays
// until it is let go.
func TestGroupsConnector(t *testing.T) {
	path := os.Getenv(connectorVar)
	if path == "" {
		return
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = os.Stdin.Read(make([]byte, 1))
	_ = conn.Close()
	unix.Exit(0) // without the second that the race detector waits
}
