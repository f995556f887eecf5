//go:build attacks

package attacks

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/wire"
)

// TestAttack03_PassedDescriptor: a process connects and lets another one write:
// a child that inherited the connection, a stranger that was passed it, a
// session's process on an operator's connection. None of them is heard.
//
// The sender of each piece of data is the connector, or nothing of it is used
// (internal/peer/conn.go, checkSender).
func TestAttack03_PassedDescriptor(t *testing.T) {
	onKernels(t, func(t *testing.T, w *world) {
		t.Run("a stranger in a session's voice", func(t *testing.T) {
			w.T = t
			anchor := w.Start()
			w.verified(anchor)
			anchor.Connect(w.Paths.BrokerSocket)
			stranger := w.lent(anchor)
			for _, frame := range []string{call("Write")[:5], call("Write")[5:]} {
				if _, err := unix.Write(stranger, []byte(frame)); err != nil {
					break // it has hung up already
				}
			}
			w.silence(anchor, "a stranger")
			anchor.Hangup()
		})
		t.Run("a child in the launcher's voice", func(t *testing.T) {
			w.T = t
			launcher := w.Start()
			launcher.Connect(w.Paths.BrokerSocket)
			launcher.Spawn(true, true).Write(register("exec"))
			w.silence(launcher, "a child")
		})
		t.Run("in turns", func(t *testing.T) {
			w.T = t
			anchor := w.Start()
			w.verified(anchor)
			anchor.Connect(w.Paths.BrokerSocket)
			anchor.Write(call("Write")[:40])
			child := anchor.Spawn(true, false)
			child.Write(call("Write")[40:])
			r, _ := w.answer(anchor)
			w.is(r, "malformed") // a header was heard, and no more
			anchor.Hangup()
		})
		t.Run("a session's process on an operator's connection", func(t *testing.T) {
			w.T = t
			anchor, operator := w.Start(), w.Start()
			id := w.session(anchor, "exec")
			w.expect(anchor, "Read", "pass")
			operator.Connect(w.Paths.OperatorSocket)
			insider := anchor.Spawn(false, false)
			w.lend(operator, insider)
			insider.Write(approve(id))
			w.silence(operator, "a session's process")
			if s := w.state(id); s != "UNVERIFIED" {
				t.Errorf("the session approved itself: %s", s)
			}
		})
	})
}

// lent takes a duplicate of p's connection, as p would pass it to this process.
func (w *world) lent(p *testproc.Proc) int {
	w.T.Helper()
	fd, err := p.Lend()
	w.Must(err)
	w.T.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// lend passes p's connection to another process.
func (w *world) lend(p, to *testproc.Proc) {
	w.T.Helper()
	w.Must(to.Take(w.lent(p)))
}

// TestAttack04_ExecAfterConnect: a process connects, asks, and becomes another
// program before it is heard. The claim is its place below the anchor, which
// exec doesn't change; the program is looked at when the call is judged, and
// another runtime is denied.
//
// That the program is advisory, and what closes the other direction, stands in
// docs/threat-model.md. The look is nestedRuntime in broker/decide.go.
func TestAttack04_ExecAfterConnect(t *testing.T) {
	onKernels(t, func(t *testing.T, w *world) {
		w.T = t
		runtime := filepath.Join(t.TempDir(), "claude")
		w.Must(copyFile(runtime, "/bin/sleep", 0o755))
		for _, name := range []string{"Write", "Read"} {
			anchor := w.Start()
			id := w.verified(anchor)
			tool := anchor.Spawn(false, false)
			var heir *testproc.Proc
			w.stopped(func() {
				tool.Connect(w.Paths.BrokerSocket)
				tool.Write(call(name))
				heir = tool.Spawn(true, false)
				tool.Become(true, runtime, "60")
			})
			r, answered := w.answer(heir)
			if !answered {
				t.Fatal("no answer")
			}
			w.is(r, "nested_runtime")
			if s := w.state(id); s != "VERIFIED" {
				t.Errorf("the session itself is %s", s)
			}
		}
	})
}

// TestAttack05_ForgedIdentity: whatever a payload, a request, an argument or the
// environment says about who asks, it is not believed.
//
// There is no place for it on the wire: a payload's fields are the host's own,
// and a request with a field that the verb doesn't have is refused
// (broker/register.go, serveControl: strictjson.Decode).
func TestAttack05_ForgedIdentity(t *testing.T) {
	w := start(t)
	anchor, stranger := w.Start(), w.Start()
	id := w.verified(anchor)
	forged := strings.Replace(payload("PreToolUse", "Write"), `{"hook`,
		`{"pid":`+pid(anchor)+`,"ppid":`+pid(anchor)+`,"uid":0,"gid":0,"anchor":`+pid(anchor)+`,"session":"`+id+`","generation":1,"guard":{"session":"`+id+`"},"hook`, 1)
	forged = strings.Replace(forged, `"conversation"`, `"`+id+`"`, 1)
	w.is(w.ask(stranger, w.Paths.BrokerSocket, event(anchor.PID, forged)), "not_registered")
	out := stranger.Run(false, forged, append([]string{"/usr/bin/env", "GUARD_SESSION=" + id, "GUARD_GENERATION=1", "GUARD_PID=" + pid(anchor)}, w.gate("decide")...)...)
	w.is(reply(out), "not_registered")
	for name, text := range map[string]string{
		"a pid beside the verb":  `{"verb":"register","pid":` + pid(anchor) + `,"register":{"runtime":"exec","dir":"/","command":"x"}}`,
		"a uid in the register":  `{"verb":"register","register":{"runtime":"exec","dir":"/","command":"x","uid":0}}`,
		"a pid in the register":  `{"verb":"register","register":{"runtime":"exec","dir":"/","command":"x","pid":1}}`,
		"a uid in another case":  `{"verb":"register","register":{"runtime":"exec","dir":"/","command":"x","UID":0}}`,
		"a verb in another case": `{"Verb":"register","register":{"runtime":"exec","dir":"/","command":"x"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			w.T = t
			w.refused(stranger, w.Paths.BrokerSocket, string(wire.AppendRequest(nil, wire.Request{Kind: wire.KindControl, Control: []byte(text)})), "bad_request")
		})
	}
	w.T = t
	// Its own session's name opens nothing to a session's process, and no other
	// session's.
	other := w.Start()
	second := w.session(other, "exec")
	for _, verb := range []wire.Verb{wire.VerbApprove, wire.VerbVerify, wire.VerbRevoke} {
		for _, target := range []string{id, second} {
			w.refused(other, w.Paths.OperatorSocket, control(wire.Control{Verb: verb, Session: target, Documents: documents}), "not_operator")
		}
	}
	if n := len(w.sessions()); n != 2 {
		t.Errorf("%d sessions, want 2", n)
	}
}

// TestAttack06_VanishedPeer: who is gone when the broker looks is nobody: not
// root, not the operator that it was, and no member of a session.
//
// Only a successful look makes a Peer (internal/peer/conn.go, Authenticate), and
// a dead one doesn't succeed (identify: Alive).
func TestAttack06_VanishedPeer(t *testing.T) {
	onKernels(t, func(t *testing.T, w *world) {
		w.T = t
		anchor := w.Start()
		id := w.session(anchor, "exec")
		w.expect(anchor, "Read", "pass")
		for _, reaped := range []bool{false, true} {
			operator, launcher, tool := w.Start(), w.Start(), anchor.Spawn(false, false)
			var heirs []*testproc.Proc
			w.stopped(func() {
				for p, frame := range map[*testproc.Proc]string{operator: approve(id), launcher: register("exec"), tool: call("Read")} {
					socket := w.Paths.BrokerSocket
					if p == operator {
						socket = w.Paths.OperatorSocket
					}
					p.Connect(socket)
					p.Write(frame)
					heirs = append(heirs, p.Spawn(true, false))
					p.Kill()
					if parent := map[bool]*testproc.Proc{true: anchor}[p == tool]; reaped {
						p.Reap(parent)
					}
				}
			})
			for _, p := range heirs {
				w.silence(p, "somebody who is gone")
			}
			if s := w.state(id); s != "UNVERIFIED" || len(w.sessions()) != 1 {
				t.Errorf("reaped %v: the session is %s, one of %d", reaped, s, len(w.sessions()))
			}
		}
		if begun := w.records(func(r audit.Record) bool { return r.Event == audit.EventLease }); len(begun) > 0 {
			t.Errorf("the dead began: %+v", begun)
		}
	})
}

func pid(p *testproc.Proc) string { return fmt.Sprint(p.PID) }

// TestAttack07_LargeUID: a uid above the largest signed number is a user like
// any other: not root, not refused, not mistaken.
//
// A uid is 32 bits without a sign wherever it is read: internal/proc/stat.go
// (ParseStatus), gate/gate.go (--broker-uid).
func TestAttack07_LargeUID(t *testing.T) {
	const large = 3_000_000_000
	if os.Getuid() != large {
		asUser(t, large)
		return
	}
	w := start(t)
	w.Must(w.Configure("[checkpoint]\nself = \"none\"\n")) // root sessions are refused
	w.KillBroker()
	w.Must(w.StartBroker(w.Ctx()))
	anchor := w.Start()
	id := w.verified(anchor)
	if s := w.find(id); s.UID != large || !s.Enforced {
		t.Errorf("uid %d, enforced %v", s.UID, s.Enforced)
	}
	w.is(reply(anchor.Run(false, payload("PreToolUse", "Write"), w.gate("decide")...)), "pass")
	w.Run("status")
}
