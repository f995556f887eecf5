package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"leaseguard.internal/internal/wire"
)

// misbehaviour is one way in which what should be the broker isn't. It puts a
// socket at path or not, and returns what ends it.
type misbehaviour struct {
	name string
	play func(r *rand.Rand, path string) (stop func(), err error)
}

// connection is what a server of ours does with each connection.
type connection func(conn *net.UnixConn, over <-chan struct{})

// serving listens at path until stop.
func serving(path string, do connection) (stop func(), err error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = conn.Close() }()
				do(conn, over)
			})
		}
	})
	return func() { close(over); _ = l.Close(); wg.Wait() }, nil
}

// take reads a whole request, so that closing afterwards is an orderly end.
func take(conn *net.UnixConn) {
	if h, err := wire.ReadHeader(conn, wire.Limits{Control: wire.MaxControl, Body: wire.MaxPayload}); err == nil {
		_, _ = wire.ReadBody(conn, h)
	}
}

// say takes a request, writes b and then ends the connection, or stays silent.
func say(b []byte, stay bool) connection {
	return func(conn *net.UnixConn, over <-chan struct{}) {
		take(conn)
		_, _ = conn.Write(b)
		if stay {
			<-over
		}
	}
}

func passReply() []byte { return wire.AppendReply(nil, pass) }

// misbehaviours are all kinds; the random numbers choose within them.
var misbehaviours = []misbehaviour{
	{"nothing there", func(*rand.Rand, string) (func(), error) { return func() {}, nil }},
	{"nobody listens", func(_ *rand.Rand, path string) (func(), error) {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			return nil, err
		}
		l.SetUnlinkOnClose(false)
		return func() {}, l.Close()
	}},
	{"no socket", func(_ *rand.Rand, path string) (func(), error) {
		return func() {}, os.WriteFile(path, passReply(), 0o600)
	}},
	{"a directory that others may write", func(_ *rand.Rand, path string) (func(), error) {
		if err := os.Chmod(filepath.Dir(path), 0o777); err != nil {
			return nil, err
		}
		return serving(path, say(passReply(), false))
	}},
	{"never accepts", func(_ *rand.Rand, path string) (func(), error) {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			return nil, err
		}
		return func() { _ = l.Close() }, nil
	}},
	{"hangs", func(_ *rand.Rand, path string) (func(), error) { return serving(path, say(nil, true)) }},
	{"resets", func(_ *rand.Rand, path string) (func(), error) {
		return serving(path, func(*net.UnixConn, <-chan struct{}) {}) // closed with the request unread
	}},
	{"closes", func(_ *rand.Rand, path string) (func(), error) { return serving(path, say(nil, false)) }},
	{"half a reply", func(r *rand.Rand, path string) (func(), error) {
		b := passReply()
		return serving(path, say(b[:r.IntN(len(b))], r.IntN(2) == 0))
	}},
	{"half a reply, then a reset", func(r *rand.Rand, path string) (func(), error) {
		b := passReply()
		b = b[:r.IntN(len(b))]
		return serving(path, func(conn *net.UnixConn, _ <-chan struct{}) { _, _ = conn.Write(b) })
	}},
	{"trickles", func(r *rand.Rand, path string) (func(), error) {
		b, wait := passReply(), time.Duration(60+r.IntN(400))*time.Millisecond // longer in all than the deadline
		return serving(path, func(conn *net.UnixConn, over <-chan struct{}) {
			take(conn)
			for i := range b {
				if _, err := conn.Write(b[i : i+1]); err != nil {
					return
				}
				select {
				case <-over:
					return
				case <-time.After(wait):
				}
			}
		})
	}},
	{"garbage", func(r *rand.Rand, path string) (func(), error) {
		b := make([]byte, r.IntN(1<<r.IntN(18)))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return serving(path, say(b, r.IntN(2) == 0))
	}},
	{"another magic, version, kind or status", func(r *rand.Rand, path string) (func(), error) {
		b := passReply()
		b[r.IntN(12)] ^= 1 << r.IntN(8)
		return serving(path, say(b, r.IntN(2) == 0))
	}},
	{"other lengths", func(r *rand.Rand, path string) (func(), error) {
		b := passReply()
		b[12+r.IntN(8)] ^= 1 << r.IntN(8)
		return serving(path, say(b, r.IntN(2) == 0))
	}},
	{"another end mark", func(r *rand.Rand, path string) (func(), error) {
		b := passReply()
		b[len(b)-1-r.IntN(len(wire.EndMark))] ^= 1 << r.IntN(8)
		return serving(path, say(b, r.IntN(2) == 0))
	}},
	{"more than a reply", func(r *rand.Rand, path string) (func(), error) {
		b := append(passReply(), make([]byte, 1+r.IntN(100))...)
		return serving(path, say(b, r.IntN(2) == 0))
	}},
	{"oversize", func(r *rand.Rand, path string) (func(), error) {
		b := wire.AppendReply(nil, wire.Reply{Kind: wire.KindAnswer, Out: []byte(strings.Repeat("x", wire.MaxOutput+1+r.IntN(1000)))})
		return serving(path, say(b, r.IntN(2) == 0))
	}},
	{"a denial without a reason", func(r *rand.Rand, path string) (func(), error) {
		reply := wire.Reply{Kind: wire.KindAnswer, Exit: 2, Out: []byte("{}"), Err: []byte("no")}
		if r.IntN(2) == 0 {
			reply.Out = nil
		} else {
			reply.Err = nil
		}
		return serving(path, say(wire.AppendReply(nil, reply), false))
	}},
	{"a status that no broker gives", func(r *rand.Rand, path string) (func(), error) {
		exits := []uint8{1, 3, 127, 255}
		reply := wire.Reply{Kind: wire.KindAnswer, Exit: exits[r.IntN(len(exits))], Out: []byte("{}"), Err: []byte("no")}
		return serving(path, say(wire.AppendReply(nil, reply), false))
	}},
	{"the answer to another question", func(_ *rand.Rand, path string) (func(), error) {
		return serving(path, say(wire.AppendReply(nil, wire.Reply{Kind: wire.KindResult, Out: []byte("{}")}), false))
	}},
	{"a stopped process", stoppedBroker},
}

// stoppedBroker is a process that listens and is then stopped. This test binary
// plays it.
func stoppedBroker(_ *rand.Rand, path string) (func(), error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GATE_TEST_CHILD=listen", "GATE_TEST_SOCKET="+path)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	stop := func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	if _, err := out.Read(make([]byte, 1)); err != nil { // it listens
		stop()
		return nil, err
	}
	err = cmd.Process.Signal(syscall.SIGSTOP)
	if err == nil { // the last of its threads has stopped when the kernel reports it
		_, err = syscall.Wait4(cmd.Process.Pid, nil, syscall.WUNTRACED, nil)
	}
	return stop, err
}

// listenOnly is the child: it would answer with a pass.
func listenOnly(path string) int {
	if _, err := serving(path, say(passReply(), false)); err != nil {
		return 1
	}
	_, _ = os.Stdout.Write([]byte{'\n'})
	select {}
}

// TestRandomFaults: whatever stands in the broker's place, the gate's own answer
// comes within its deadline and is a denial of the exact shape; an observer says
// nothing. The seed is printed, and can be given again.
func TestRandomFaults(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("GATE_TEST_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("GATE_TEST_SEED=%d", seed)
	jobs := make(chan uint64)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for n := range jobs {
				if err := randomFault(seed, n); err != nil {
					t.Errorf("fault %d of seed %d: %v", n, seed, err)
				}
			}
		})
	}
	for n := range uint64(randomFaults) {
		jobs <- n
	}
	close(jobs)
	wg.Wait()
}

func randomFault(seed, n uint64) error {
	r := rand.New(rand.NewPCG(seed, n))
	m := misbehaviours[n%uint64(len(misbehaviours))] // each kind as often
	dir, err := os.MkdirTemp("", "g")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "broker.sock")
	stop, err := m.play(r, path)
	if err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	defer stop()
	body := payload
	if r.IntN(8) == 0 {
		body = strings.Repeat("p", 1<<20)
	}
	role := "decide"
	if r.IntN(8) == 0 {
		role = "observe"
	}
	began := time.Now()
	got, err := runBounded(hook(path, role, "--deadline", "1"), body)
	if err == nil {
		err = refused(got, role)
	}
	if took := time.Since(began); err == nil && took > slack {
		err = fmt.Errorf("the answer took %s", took)
	}
	if err != nil {
		return fmt.Errorf("%s, role %s: %w", m.name, role, err)
	}
	return nil
}

// runBounded runs a gate that may not hang.
func runBounded(cmd *exec.Cmd, stdin string) (result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var out, errOut strings.Builder
	bounded := exec.CommandContext(ctx, cmd.Path, cmd.Args[1:]...)
	bounded.Stdin, bounded.Stdout, bounded.Stderr = strings.NewReader(stdin), &out, &errOut
	err := bounded.Run()
	if exit := (*exec.ExitError)(nil); ctx.Err() != nil || err != nil && !errors.As(err, &exit) {
		return result{}, fmt.Errorf("running the gate: %w", errors.Join(err, ctx.Err()))
	}
	return result{out.String(), errOut.String(), bounded.ProcessState.ExitCode()}, nil
}

// refused holds a result to the one shape of the gate's own denials, byte for
// byte around the reason; an observer's is silence.
func refused(got result, role string) error {
	if role == "observe" {
		if got != (result{}) {
			return fmt.Errorf("an observer's gate said %v", got)
		}
		return nil
	}
	reason := strings.TrimSuffix(got.err, "\n")
	text, err := json.Marshal(reason)
	if err != nil {
		return err
	}
	want := `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":` + string(text) + `}}`
	code, _, _ := strings.Cut(strings.TrimPrefix(reason, "guard: "), ":")
	if got.exit != 2 || got.out != want || !template.MatchString(reason) ||
		!slices.Contains([]string{"broker_unavailable", "broker_untrusted", "deadline"}, code) {
		return fmt.Errorf("no denial of the right shape: %v", got)
	}
	return nil
}

// TestEOFAtEachByte: no beginning of a reply is taken for one.
func TestEOFAtEachByte(t *testing.T) {
	t.Parallel()
	b := passReply()
	for n := range b {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			path := filepath.Join(private(t), "b.sock")
			stop, err := serving(path, say(b[:n], false))
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			got, err := runBounded(hook(path, "decide"), payload)
			if err == nil {
				err = refused(got, "decide")
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	path := filepath.Join(private(t), "b.sock")
	stop, err := serving(path, say(b, false))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if got, err := runBounded(hook(path, "decide"), payload); err != nil || got.exit != 0 {
		t.Errorf("the whole reply: %v, %v; this test would find nothing", got, err)
	}
}
