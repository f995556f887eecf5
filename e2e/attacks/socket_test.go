//go:build attacks

package attacks

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/wire"
)

// limited starts a world whose broker has only so many descriptors.
func limited(t *testing.T, files int) *world {
	t.Helper()
	script := filepath.Join(t.TempDir(), "guard-broker")
	if err := os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\nulimit -n %d\nexec %s\n", files, programs.Broker), 0o700); err != nil {
		t.Fatal(err)
	}
	whole := programs
	defer func() { programs = whole }()
	programs.Broker = script
	return start(t)
}

// TestAttack18_SocketTakeover: somebody takes the broker's place at its socket:
// by a second broker while the first one is busy, by what lies there before it
// starts, by a directory that others can write, or by listening as another user.
//
// One lock for each run directory, before anything is removed (broker/lock.go);
// only a socket of its own is removed (internal/peer/listen.go, RemoveStale);
// gate and clients ask for the owner of the directory and the uid of the listener
// (gate/exchange.go, internal/peer/dial.go).
func TestAttack18_SocketTakeover(t *testing.T) {
	t.Run("a second broker while the first is busy", func(t *testing.T) {
		w := start(t)
		anchor := w.Start()
		w.verified(anchor)
		var before, after unix.Stat_t
		w.Must(unix.Lstat(w.Paths.BrokerSocket, &before))
		w.stopped(func() {
			for _, state := range []string{"", filepath.Join(t.TempDir(), "state")} {
				cmd := exec.Command(w.Programs.Broker)
				cmd.Env = w.Env
				if state != "" { // another store, another truth
					cmd.Env = append(cmd.Env, "XDG_STATE_HOME="+state)
				}
				out, err := runFor(cmd, 10*time.Second)
				if err == nil || !strings.Contains(out, "another broker") || !strings.Contains(out, fmt.Sprint(w.BrokerPID())) {
					t.Errorf("a second broker: %v, %s", err, out)
				}
			}
		})
		w.Must(unix.Lstat(w.Paths.BrokerSocket, &after))
		if before.Ino != after.Ino {
			t.Error("the socket is another one")
		}
		w.expect(anchor, "Write", "pass")
	})
	for name, prepare := range map[string]func(*world, string){
		"a file":             func(w *world, path string) { w.Must(os.WriteFile(path, nil, 0o600)) },
		"a link to a socket": func(w *world, path string) { w.squat(path + ".own"); w.Must(os.Symlink(path+".own", path)) },
		"a link to nothing":  func(w *world, path string) { w.Must(os.Symlink("/nonexistent", path)) },
		"a directory":        func(w *world, path string) { w.Must(os.Mkdir(path, 0o700)) },
		"another's socket":   func(w *world, path string) { w.needsRoot(); w.squat(path); w.Must(os.Chown(path, ordinary, -1)) },
		"a writable run dir": func(w *world, _ string) { w.Must(os.Chmod(w.Paths.RunDir, 0o777)) },
		"a linked run dir": func(w *world, _ string) {
			w.Must(os.Rename(w.Paths.RunDir, w.Paths.RunDir+".x"))
			w.Must(os.Symlink(w.Paths.RunDir+".x", w.Paths.RunDir))
		},
		"another's directory": func(w *world, _ string) { w.needsRoot(); w.Must(os.Chown(w.Paths.RunDir, ordinary, -1)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			w.Run("broker", "stop")
			w.WaitBroker()
			_ = os.Remove(w.Paths.BrokerSocket)
			prepare(w, w.Paths.BrokerSocket)
			before, err := os.Lstat(w.Paths.BrokerSocket)
			cmd := exec.Command(w.Programs.Broker)
			cmd.Env = w.Env
			if out, err := runFor(cmd, 10*time.Second); err == nil || out == "" {
				t.Errorf("the broker took it: %v, %s", err, out)
			}
			if after, afterErr := os.Lstat(w.Paths.BrokerSocket); err == nil && (afterErr != nil || !os.SameFile(before, after)) {
				t.Error("it was removed or exchanged")
			}
		})
	}
	t.Run("another user listens", func(t *testing.T) {
		w := start(t)
		w.needsRoot()
		anchor := w.Start()
		w.verified(anchor)
		w.Run("broker", "stop")
		w.WaitBroker()
		w.Must(os.Remove(w.Paths.BrokerSocket))
		heard := w.squatAs(w.Paths.BrokerSocket, ordinary)
		w.is(reply(anchor.Run(false, payload("PreToolUse", "Write"), w.gate("decide")...)), "broker_untrusted")
		if text := <-heard; text != "" {
			t.Errorf("the impostor was told %q", text)
		}
	})
}

func (w *world) needsRoot() { w.T.Helper(); needRoot(w.T) }

// runFor runs a program that has to end by itself, and returns what it says.
func runFor(cmd *exec.Cmd, limit time.Duration) (string, error) {
	end := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
	defer end.Stop()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// squat listens at path as this process.
func (w *world) squat(path string) {
	w.T.Helper()
	l, err := net.Listen("unix", path)
	w.Must(err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	w.T.Cleanup(func() { _ = l.Close() })
}

// squatAs listens at path as another user, in a directory that isn't theirs, and
// tells what the first to connect says.
func (w *world) squatAs(path string, uid int) <-chan string {
	w.T.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	w.Must(err)
	w.Must(unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
	w.Must(os.Chmod(path, 0o666))
	// The kernel stamps the credentials of the thread that calls listen; the raw
	// call changes this thread alone, which ends with its goroutine.
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0))
		if errno != 0 {
			done <- errno
			return
		}
		done <- unix.Listen(fd, 8)
	}()
	w.Must(<-done)
	heard := make(chan string, 1)
	go func() {
		defer func() { _ = unix.Close(fd) }()
		conn, _, err := unix.Accept(fd)
		if err != nil {
			heard <- err.Error()
			return
		}
		defer func() { _ = unix.Close(conn) }()
		buf := make([]byte, 1024)
		n, _ := unix.Read(conn, buf)
		heard <- string(buf[:max(n, 0)])
	}()
	return heard
}

// TestAttack19_DescriptorFlood: requests that bring open files along, in numbers,
// leave none in the broker, and are refused.
//
// Where the kernel has SO_PASSRIGHTS the sender can't send them
// (internal/peer/listen.go, prepare); elsewhere there is no room for them in a
// message (internal/peer/conn.go, credSpace).
func TestAttack19_DescriptorFlood(t *testing.T) {
	onKernels(t, func(t *testing.T, w *world) {
		w.T = t
		anchor, stranger := w.Start(), w.Start()
		w.verified(anchor)
		before := 0
		if os.Getuid() == 0 {
			before = w.brokerFiles()
		}
		for range 20 {
			for p, frame := range map[*testproc.Proc]string{anchor: call("Read"), stranger: register("exec")} {
				p.Connect(w.Paths.BrokerSocket)
				if p.WriteWithFiles(frame, 200) == nil { // else the kernel keeps them away
					w.silence(p, "a request with files")
				}
				p.Hangup()
			}
		}
		w.expect(anchor, "Write", "pass")
		if os.Getuid() == 0 {
			w.eventually("the broker holds no more than before", func() bool { return w.brokerFiles() <= before+4 })
		}
		if n := len(w.sessions()); n != 1 {
			t.Errorf("%d sessions", n)
		}
	})
}

// TestAttack20_SlowAndHuge: connections that say nothing, a byte at a time, or
// promise more than they send, from a session, from outside of all, and on the
// operators' socket: their sender alone is held up.
//
// Places are given by session and by uid before a byte is read (broker/pool.go,
// take); lengths are compared before anything is allocated
// (internal/wire/frame.go, ReadHeader); each wait ends (broker/serve.go).
func TestAttack20_SlowAndHuge(t *testing.T) {
	promise := string(wire.AppendRequest(nil, wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleDecide, Body: make([]byte, wire.MaxPayload)})[:1000])
	floods := map[string]string{"silence": "", "half a header": call("Read")[:7], "promises": promise}
	for name, text := range floods {
		t.Run("a session's "+name, func(t *testing.T) {
			w := start(t)
			bad, good := w.Start(), w.Start()
			w.verified(bad)
			id := w.verified(good)
			flooder := bad.Spawn(false, false)
			for range 5 {
				flooder.Flood(200, w.Paths.BrokerSocket, text)
				flooder.Flood(200, w.Paths.OperatorSocket, text)
			}
			w.expect(good, "Read", "pass")
			w.expect(good, "Write", "pass")
			if n := w.inFlight(); n > 32 { // those of the flood
				t.Errorf("%d connections are heard", n)
			}
			w.Run("revoke", id)
			w.expect(good, "Write", "lease_revoked")
			if w.state(id) != "UNVERIFIED" {
				t.Error("revoked, yet not")
			}
			w.turnedAway(bad, call("Read"), "limits.calls_per_session")
			flooder.Calm()
			w.eventually("the session is heard again", func() bool { r, ok := w.tryAsk(bad, call("Read")); return ok && r.Exit == 0 })
		})
	}
	for name, text := range floods {
		t.Run("just enough of "+name, func(t *testing.T) {
			w := start(t)
			bad, stranger := w.Start(), w.Start()
			w.verified(bad)
			bad.Spawn(false, false).Flood(32, w.Paths.BrokerSocket, text)
			w.eventually("its places are taken", func() bool { return w.inFlight() == 32 })
			r := w.ask(bad, w.Paths.BrokerSocket, call("Read"))
			w.is(r, "broker_busy")
			if !strings.Contains(string(r.Err), "limits.calls_per_session") {
				t.Errorf("the refusal names no key: %s", r.Err)
			}
			stranger.Flood(64, w.Paths.BrokerSocket, text)
			w.eventually("so are those outside", func() bool { return w.inFlight() == 96 })
			res := w.result(w.ask(w.Start(), w.Paths.BrokerSocket, register("exec")))
			if res.Error == nil || res.Error.Code != "broker_busy" || !strings.Contains(res.Error.Message, "limits.sessions_per_uid") {
				t.Errorf("the flooder was heard: %+v", res)
			}
		})
	}
	t.Run("from outside of all sessions", func(t *testing.T) {
		w := start(t)
		stranger, good := w.Start(), w.Start()
		id := w.verified(good)
		for range 5 {
			stranger.Flood(200, w.Paths.BrokerSocket, "")
		}
		w.expect(good, "Write", "pass")
		w.Run("revoke", id)
		w.turnedAway(stranger, register("exec"), "limits.sessions_per_uid")
	})
	t.Run("all that one user may have", func(t *testing.T) {
		w := limited(t, 300) // 37 places, of which one uid has at most 19
		bad, good := w.Start(), w.Start()
		w.verified(bad)
		w.verified(good)
		bad.Spawn(false, false).Flood(200, w.Paths.BrokerSocket, "")
		w.eventually("the places are taken", func() bool { return w.inFlight() >= 19 })
		w.expect(good, "Read", "pass")
		w.expect(good, "Write", "pass")
		w.turnedAway(bad, call("Read"), "the broker leaves to one user")
	})
	t.Run("without descriptors", func(t *testing.T) {
		w := limited(t, 64)
		good := w.Start()
		w.verified(good)
		flooder := w.Start()
		flooder.Flood(400, w.Paths.BrokerSocket, "")
		flooder.Calm()
		w.eventually("it has recovered", func() bool {
			return reply(good.Run(false, payload("PreToolUse", "Write"), append(w.gate("decide"), "--deadline", "2")...)).Exit == 0
		})
	})
	t.Run("huge", func(t *testing.T) {
		w := start(t)
		anchor := w.Start()
		w.verified(anchor)
		frame := []byte(call("Read"))
		for i, b := range []byte{0xff, 0xff, 0xff, 0xff} {
			frame[16+i] = b
		}
		anchor.Connect(w.Paths.BrokerSocket)
		anchor.Write(string(frame))
		began := time.Now()
		w.silence(anchor, "a body of 4 GiB")
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("it was waited for, for %v", took)
		}
		anchor.Hangup()
		w.expect(anchor, "Write", "pass")
	})
}

// tryAsk makes a request that the broker may not even hear.
func (w *world) tryAsk(p *testproc.Proc, frame string) (wire.Reply, bool) {
	w.T.Helper()
	p.Connect(w.Paths.BrokerSocket)
	defer p.Hangup()
	if p.TryWrite(frame) != nil {
		return wire.Reply{}, false
	}
	return w.answer(p)
}

// turnedAway holds the sender of a flood to be told that the broker is busy and
// why, or nothing at all.
func (w *world) turnedAway(p *testproc.Proc, frame, why string) {
	w.T.Helper()
	r, answered := w.tryAsk(p, frame)
	if text := string(r.Out) + string(r.Err); answered && (!strings.Contains(text, "broker_busy") || !strings.Contains(text, why)) {
		w.T.Errorf("the flooder was heard: %s", text)
	}
}

// TestAttack24_RedirectedGate: whatever the environment of a session says, its
// gate asks the broker of its hook's entry and no other.
//
// Socket and uid are arguments, and the gate reads no variable
// (gate/exchange.go, ask); who listens is checked as in TestAttack18.
func TestAttack24_RedirectedGate(t *testing.T) {
	w := start(t)
	anchor := w.Start()
	w.session(anchor, "exec")
	dir := filepath.Join(w.Sandbox.Dir, "fake", "guard")
	w.Must(os.MkdirAll(dir, 0o700))
	fake := filepath.Join(dir, "broker.sock")
	l, err := net.Listen("unix", fake)
	w.Must(err)
	asked := make(chan struct{}, 100)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			asked <- struct{}{}
			_, _ = conn.Write(wire.AppendReply(nil, wire.Reply{Kind: wire.KindAnswer, Out: []byte("{}")}))
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	env := []string{"/usr/bin/env"}
	for _, name := range []string{"GUARD_SOCKET", "GUARD_BROKER_SOCKET", "GUARD_BROKER", "LISTEN_FDS", "NOTIFY_SOCKET"} {
		env = append(env, name+"="+fake)
	}
	for _, name := range []string{"XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "HOME", "TMPDIR", "GUARD_RUN_DIR", "PWD"} {
		env = append(env, name+"="+filepath.Dir(dir))
	}
	env = append(env, "GUARD_BROKER_UID="+fmt.Sprint(os.Getuid()), "LD_PRELOAD="+filepath.Join(dir, "x.so"), "GODEBUG=panicnil=1", "GUARD_ROLE=observe", "GUARD_FAILPOINT=x:kill")
	w.is(reply(anchor.Run(false, payload("PreToolUse", "Write"), append(env, w.gate("decide")...)...)), "lease_unverified")
	if len(asked) > 0 {
		t.Error("the gate asked another broker")
	}
}
