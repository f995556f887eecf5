//go:build attacks

package attacks

import (
	"fmt"
	"os"
	"testing"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/sandbox/sandboxtest"
	"leaseguard.internal/internal/testproc"
)

// next makes the next process of this pid namespace have the pid.
func (w *world) next(pid int) {
	w.T.Helper()
	w.Must(os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(fmt.Sprint(pid-1)), 0))
}

// reuse has start start the process that gets the pid. It answers nil when a
// thread of some program has got it: that one keeps it.
func (w *world) reuse(pid int, start func() *testproc.Proc) *testproc.Proc {
	w.T.Helper()
	for range 5 {
		w.next(pid)
		p := start()
		if p.PID == pid {
			return p
		}
		p.Kill()
	}
	return nil
}

// often plays a round until it has succeeded n times, since a pid can't always
// be had.
func (w *world) often(n int, round func() bool) {
	w.T.Helper()
	for tries := 4*n + 10; n > 0; tries-- {
		if tries == 0 {
			w.T.Fatal("pids could not be had again")
		}
		if round() {
			n--
		}
	}
}

// TestAttack01_PIDReused: a process of a session connects and dies, and its pid
// becomes another's of the same session: whoever writes on the connection, and
// whoever is looked at, isn't the connector.
//
// Before the broker has looked, SO_PEERPIDFD of the connection stops it
// (internal/peer/conn.go, identify: openPeer); afterwards the poll of that pidfd
// after each read (receive).
func TestAttack01_PIDReused(t *testing.T) {
	if !inPIDNamespace(t) {
		return
	}
	t.Run("before it is looked at", func(t *testing.T) {
		w := start(t)
		anchor := w.Start()
		anchor.Subreaper()
		w.verified(anchor)
		w.often(sandboxtest.Size(30, 300), func() bool {
			connector := anchor.Spawn(false, false)
			var heir, double *testproc.Proc
			w.stopped(func() {
				connector.Connect(w.Paths.BrokerSocket)
				connector.Write(call("Write"))
				heir = connector.Spawn(true, false)
				connector.Kill()
				connector.Reap(anchor)
				double = w.reuse(connector.PID, func() *testproc.Proc { return anchor.Spawn(false, false) })
			})
			w.silence(heir, "a call of the dead")
			heir.Kill()
			return double != nil
		})
		if seen := w.records(func(r audit.Record) bool { return r.Event == audit.EventVerdict && r.CallerPID != anchor.PID }); len(seen) > 0 {
			t.Errorf("calls of the dead were judged: %+v", seen)
		}
	})
	t.Run("after it was looked at", func(t *testing.T) {
		onKernels(t, func(t *testing.T, w *world) {
			w.T = t
			anchor := w.Start()
			anchor.Subreaper()
			w.verified(anchor)
			w.often(sandboxtest.Size(5, 50), func() bool {
				connector := anchor.Spawn(false, false)
				connector.Connect(w.Paths.BrokerSocket)
				connector.Write(call("Write")[:10])
				w.eventually("the broker waits for the rest", func() bool { return w.inFlight() == 1 })
				heir := connector.Spawn(true, false)
				connector.Kill()
				connector.Reap(anchor)
				double := w.reuse(connector.PID, func() *testproc.Proc { return heir.Spawn(true, false) })
				defer heir.Kill()
				if double == nil {
					return false
				}
				if err := double.TryWrite(call("Write")[10:]); err == nil { // the broker may have hung up by now
					w.silence(double, "a process with the connector's pid")
				}
				double.Kill()
				return true
			})
		})
	})
}

// inFlight is how many connections the broker hears.
func (w *world) inFlight() int {
	w.T.Helper()
	return w.operate(statusOnly).Status.Broker.InFlight
}

// TestAttack02_AnchorsPIDReused: an anchor dies, and its pid becomes that of
// another process, also within one tick of the start time, and also while the
// broker is down: nothing of the session is the newcomer's.
//
// A session is found by the pidfs inode of its anchor, held by a pidfd
// (broker/session, Find: anchored and ChildOf), and brought back by inode and
// start time (internal/peer/process.go, Reopen). That equal pid and start time
// aren't enough is shown by TestAttack02_SlowFork.
func TestAttack02_AnchorsPIDReused(t *testing.T) {
	if !inPIDNamespace(t) {
		return
	}
	t.Run("the broker runs", func(t *testing.T) {
		onKernels(t, func(t *testing.T, w *world) {
			w.T = t
			w.often(sandboxtest.Size(10, 100), func() bool {
				anchor := w.Start()
				w.verified(anchor)
				var newcomer, child *testproc.Proc
				w.stopped(func() {
					anchor.Kill()
					anchor.Reap(nil)
					if newcomer = w.reuse(anchor.PID, w.Start); newcomer == nil {
						return
					}
					newcomer.Connect(w.Paths.BrokerSocket)
					newcomer.Write(call("Read"))
					child = newcomer.Spawn(false, false)
					child.Connect(w.Paths.BrokerSocket)
					child.Write(call("Read"))
				})
				if newcomer == nil {
					return false
				}
				for _, p := range []*testproc.Proc{newcomer, child} {
					r, answered := w.answer(p)
					if !answered {
						t.Fatal("a stranger got no answer")
					}
					w.is(r, "not_registered")
				}
				newcomer.Kill()
				newcomer.Reap(nil)
				return true
			})
		})
	})
	t.Run("the broker is down", func(t *testing.T) {
		w := start(t)
		w.often(1, func() bool {
			anchor := w.Start()
			id := w.verified(anchor)
			w.KillBroker()
			anchor.Kill()
			anchor.Reap(nil)
			newcomer := w.reuse(anchor.PID, w.Start)
			w.Must(w.StartBroker(w.Ctx()))
			if newcomer == nil {
				return false
			}
			w.expect(newcomer, "Read", "not_registered")
			if s := w.state(id); s != "gone" {
				t.Errorf("the session came back, %s", s)
			}
			return true
		})
	})
}

// TestAttack10_Zombies: a zombie answers signal 0 and has pid, uid and parent. A
// dead caller, or a dead anchor, is nobody all the same.
//
// Liveness is poll on a pidfd and nothing else (internal/peer/kernel.go, ended);
// of an anchor whose first thread has ended while others live, the state in
// /proc says so (broker/decide.go, gone).
func TestAttack10_Zombies(t *testing.T) {
	onKernels(t, func(t *testing.T, w *world) {
		t.Run("caller", func(t *testing.T) {
			w.T = t
			anchor := w.Start()
			anchor.Subreaper()
			w.verified(anchor)
			caller := anchor.Spawn(false, false)
			var heir *testproc.Proc
			w.stopped(func() {
				caller.Connect(w.Paths.BrokerSocket)
				caller.Write(call("Read"))
				heir = caller.Spawn(true, false)
				caller.Kill() // and nobody reaps it
			})
			w.silence(heir, "a zombie")
		})
		t.Run("anchor", func(t *testing.T) {
			w.T = t
			anchor := w.Start()
			id := w.verified(anchor)
			child := anchor.Spawn(false, false)
			w.stopped(func() {
				child.Connect(w.Paths.BrokerSocket)
				child.Write(call("Read"))
				anchor.Kill()
			})
			r, answered := w.answer(child)
			if !answered {
				t.Fatal("the orphan got no answer")
			}
			w.is(r, "not_registered")
			w.eventually("the session has ended", func() bool { return w.state(id) == "gone" })
		})
		t.Run("anchor's first thread", func(t *testing.T) {
			w.T = t
			anchor := w.Start()
			id := w.verified(anchor)
			child := anchor.Spawn(false, false)
			w.expect(child, "Write", "pass")
			anchor.LeaveLeader()
			w.eventually("its first thread is a zombie", func() bool { return zombie(anchor.PID) })
			w.expect(child, "Write", "not_registered")
			w.eventually("the session has ended", func() bool { return w.state(id) == "gone" })
		})
	})
}
