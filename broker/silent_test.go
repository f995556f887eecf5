package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/wire"
)

// TestSilentGiveWay: however many connections of one user stand at the operators'
// socket and say nothing, whole or in part, who speaks is heard, and those that
// lost their places are gone.
func TestSilentGiveWay(t *testing.T) {
	status := string(wire.AppendRequest(nil, wire.Request{Kind: wire.KindControl, Control: []byte(`{"verb":"status"}`)}))
	for name, says := range map[string]string{"nothing": "", "a byte": "L", "a header": status[:wire.RequestSize]} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			zoo := testproc.New(t)
			crowd, operator := zoo.Start(), zoo.Start()
			for range 3 * maxOperators / maxCrowd { // so many as wait at once
				crowd.Flood(maxCrowd, f.opt.Paths.OperatorSocket, says)
				f.eventually("the places are taken", func() bool { return f.people.taken() > 0 })
			}
			for i := range 5 {
				operator.Connect(f.opt.Paths.OperatorSocket)
				operator.Write(status)
				if answer, err := operator.Read(); err != nil || !strings.HasPrefix(answer, "LGr1") || strings.Contains(answer, "broker_busy") {
					t.Fatalf("request %d: %.200q, %v", i, answer, err)
				}
				operator.Hangup()
			}
		})
	}
}

// accepted is the broker's end of a connection on which so much was sent.
func accepted(t *testing.T, sent string) *peer.Conn {
	t.Helper()
	path := filepath.Join(testproc.New(t).Dir(), "s")
	l, err := peer.Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	client, err := peer.Dial(t.Context(), path, uint32(os.Getuid()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	_, writeErr := client.Write([]byte(sent))
	conn, err := l.Accept()
	if err = errors.Join(writeErr, err); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestSilents: the oldest that says nothing goes first, of the same tree and pool
// alone, and none that was heard or has sent something.
func TestSilents(t *testing.T) {
	var s silents
	in, other := newPool(8, 0, 0), newPool(8, 0, 0)
	mine, theirs := tree{user: 1}, tree{user: 2}
	gone := ""
	enter := func(name string, in *pool, of tree, sent string) (heard func()) {
		return s.enter(in, of, accepted(t, sent), func() { gone += name })
	}
	enter("a", in, theirs, "")
	enter("b", other, mine, "")
	enter("c", in, mine, "x")
	heard := enter("d", in, mine, "")
	enter("e", in, mine, "")
	enter("f", in, mine, "")
	heard()
	for range 4 {
		gone += fmt.Sprint(s.evict(in, mine), " ")
	}
	if want := "etrue ftrue false false "; gone != want {
		t.Errorf("gone: %q, want %q", gone, want)
	}
	var none *silents
	none.closer()()
	none.enter(in, mine, nil, nil)() // as at broker.sock
}
