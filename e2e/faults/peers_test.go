//go:build faults

package faults

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"leaseguard.internal/internal/sandbox/sandboxtest"
	"leaseguard.internal/internal/wire"
)

// misbehave is what a peer does on a connection until over is closed.
type misbehave func(r *rand.Rand, conn *net.UnixConn, over <-chan struct{})

func event(body string) []byte {
	return wire.AppendRequest(nil, wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleDecide, Body: []byte(body)})
}

const call = `{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Write","tool_input":{}}`

var misbehaviours = map[string]misbehave{
	"says nothing": func(_ *rand.Rand, _ *net.UnixConn, over <-chan struct{}) { <-over },
	"a byte a second": func(_ *rand.Rand, conn *net.UnixConn, over <-chan struct{}) {
		for _, b := range event(call) {
			if _, err := conn.Write([]byte{b}); err != nil {
				return
			}
			select {
			case <-over:
				return
			case <-time.After(time.Second):
			}
		}
	},
	"a huge length": func(_ *rand.Rand, conn *net.UnixConn, over <-chan struct{}) {
		b := event(call)
		copy(b[16:20], "\xff\xff\xff\xff")
		_, _ = conn.Write(b)
		<-over
	},
	"the largest payload, announced and not sent": func(_ *rand.Rand, conn *net.UnixConn, over <-chan struct{}) {
		b := event(call)
		copy(b[16:20], "\x01\x00\x00\x00")
		_, _ = conn.Write(b)
		<-over
	},
	"half a header": func(r *rand.Rand, conn *net.UnixConn, over <-chan struct{}) {
		_, _ = conn.Write(event(call)[:1+r.IntN(18)])
		<-over
	},
	"half a body": func(r *rand.Rand, conn *net.UnixConn, over <-chan struct{}) {
		b := event(call)
		_, _ = conn.Write(b[:20+r.IntN(len(b)-20)])
		<-over
	},
	"half closed": func(r *rand.Rand, conn *net.UnixConn, over <-chan struct{}) {
		b := event(call)
		_, _ = conn.Write(b[:r.IntN(len(b)+1)])
		_ = conn.CloseWrite()
		<-over
	},
	"gone before the reply": func(_ *rand.Rand, conn *net.UnixConn, _ <-chan struct{}) { _, _ = conn.Write(event(call)) },
	"gone within the reply": func(_ *rand.Rand, conn *net.UnixConn, _ <-chan struct{}) {
		_, _ = conn.Write(event(call))
		_, _ = io.ReadFull(conn, make([]byte, 1))
	},
	"never reads": func(_ *rand.Rand, conn *net.UnixConn, over <-chan struct{}) {
		_ = conn.SetReadBuffer(1)
		for {
			if _, err := conn.Write(event(strings.Repeat("x", 1<<16))); err != nil {
				break
			}
		}
		<-over
	},
	"garbage": func(r *rand.Rand, conn *net.UnixConn, over <-chan struct{}) {
		b := make([]byte, r.IntN(1<<16))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		_, _ = conn.Write(b)
		<-over
	},
	"asks for an operator's verb on the wrong socket": func(_ *rand.Rand, conn *net.UnixConn, over <-chan struct{}) {
		_, _ = conn.Write(wire.AppendRequest(nil, wire.Request{Kind: wire.KindControl, Control: []byte(`{"verb":"status"}`)}))
		<-over
	},
}

// TestSlowPeers: hundreds of peers that are slow, half open, or gone at the worst
// moment, on both sockets, while a session works. Calls and revocations are
// answered, and once the peers are gone the broker is as it was.
func TestSlowPeers(t *testing.T) {
	w := prepare(t)
	w.start()
	before := w.usage()
	peers, duration := 200, 5*time.Second
	if sandboxtest.Nightly() {
		peers, duration = 5000, 10*time.Minute
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	over := make(chan struct{})
	var wg sync.WaitGroup
	end := sync.OnceFunc(func() { close(over); wg.Wait() })
	defer end()
	kinds := make([]string, 0, len(misbehaviours))
	for name := range misbehaviours {
		kinds = append(kinds, name)
	}
	for n := range peers {
		socket := w.Paths.BrokerSocket
		if n%8 == 7 {
			socket = w.Paths.OperatorSocket
		}
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(n)))
			for {
				select {
				case <-over:
					return
				default:
				}
				conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
				if err != nil {
					time.Sleep(10 * time.Millisecond) // the queue is full
					continue
				}
				gone := make(chan struct{})
				go func() { // what waits for the peer's end is freed by the test's
					select {
					case <-over:
						_ = conn.SetDeadline(time.Now())
					case <-gone:
					}
				}()
				misbehaviours[kinds[n%len(kinds)]](r, conn, over)
				close(gone)
				_ = conn.Close()
			}
		})
	}
	for until := time.Now().Add(duration); time.Now().Before(until); {
		w.expect("Write", "pass", "")
		w.expect("Read", "pass", "")
	}
	began := time.Now()
	if warned := w.revoke(); warned != "" {
		t.Errorf("the revocation says %q", warned)
	}
	if took := time.Since(began); took > promptly {
		t.Errorf("the revocation took %s", took)
	}
	w.expect("Write", "deny", "lease_revoked")
	end()
	w.settle(before)
}

// usage is what the broker holds.
type usage struct{ files, mib int }

func (w *world) usage() (u usage) {
	w.T.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", w.BrokerPID()))
	if os.Getuid() == 0 || !errors.Is(err, os.ErrPermission) { // the broker lets none but root look into it
		w.Must(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.BrokerPID()))
	w.Must(err)
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); f[0] == "VmRSS:" {
			kib, err := strconv.Atoi(f[1])
			w.Must(err)
			u.mib = kib >> 10
		}
	}
	u.files = len(entries)
	return u
}

// settle waits until the broker holds no more descriptors than before, and bounds
// its memory.
func (w *world) settle(before usage) {
	w.T.Helper()
	var now usage
	if err := w.Wait(w.Ctx(), func() bool {
		now = w.usage()
		return now.files <= before.files+2 && w.status().Broker.InFlight == 0
	}); err != nil {
		w.T.Errorf("%d descriptors are left, %d before", now.files, before.files)
	}
	if now.mib > 200 {
		w.T.Errorf("the broker has %d MiB, %d before", now.mib, before.mib)
	}
	w.T.Logf("descriptors %d and %d, MiB %d and %d", before.files, now.files, before.mib, now.mib)
}

// TestFewDescriptors: with 64 descriptors and a hundred connections that say
// nothing, existing sessions are answered in time, whatever the answer; a
// revocation works; and afterwards all is as it was, again and again.
func TestFewDescriptors(t *testing.T) {
	w := prepare(t)
	w.under("ulimit -n 64; exec")
	w.start()
	before := w.usage()
	cycles := 3
	if sandboxtest.Nightly() {
		cycles = 100
	}
	for range cycles {
		var held []net.Conn
		for range 100 {
			conn, err := net.Dial("unix", w.Paths.BrokerSocket)
			if err != nil {
				break // the queue is full
			}
			held = append(held, conn)
		}
		answered := 0
		for range 3 {
			a, err := w.agent.Call(w.Ctx(), "Read", `{}`)
			w.Must(err)
			if verdict, reason := a.Read(); verdict == "deny" && !strings.HasPrefix(reason, "guard: broker_") {
				t.Errorf("denied with %q", reason)
			} else if verdict == "pass" {
				answered++
			}
		}
		w.revoke()
		t.Logf("%d connections held, %d of 3 calls passed meanwhile", len(held), answered)
		if answered == 0 {
			t.Error("no call of the session was judged")
		}
		for _, conn := range held {
			_ = conn.Close()
		}
		w.settle(before)
		w.expect("Write", "deny", "lease_revoked")
		w.approve()
		w.expect("Write", "pass", "")
	}
}
