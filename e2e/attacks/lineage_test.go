//go:build attacks

package attacks

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/sandbox"
	"leaseguard.internal/internal/sandbox/sandboxtest"
	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/wire"
)

// TestAttack09_SubjectChangesWhileJudged: who asks leaves the session, or loses
// its way up to the anchor, while the call is judged, for a read and for a
// change. The answer is given to who it is then.
//
// The last look before a pass is written asks for the session again
// (broker/decide.go, gone).
func TestAttack09_SubjectChangesWhileJudged(t *testing.T) {
	for _, k := range kernels {
		w := start(t, "GUARD_FAILPOINT=broker/last-look:sleep=300ms", "GUARD_KERNEL="+k)
		for _, tool := range []string{"Read", "Write"} {
			for _, ends := range []string{"its parent", "the session"} {
				t.Run(fmt.Sprintf("%s, %s ends, kernel %s", tool, ends, k), func(t *testing.T) {
					w.T = t
					anchor := w.Start()
					id := w.session(anchor, "exec")
					w.expect(anchor, "Read", "pass")
					w.approve(id)
					parent := anchor.Spawn(false, false)
					caller := parent.Spawn(false, true)
					caller.Connect(w.Paths.BrokerSocket)
					caller.Write(call(tool))
					w.eventually("the call is judged", func() bool { return w.inFlight() == 1 })
					if ends == "its parent" {
						parent.Kill()
						parent.Reap(anchor)
					} else {
						anchor.Kill()
						anchor.Reap(nil)
					}
					r, answered := w.answer(caller)
					if !answered {
						t.Fatal("no answer")
					}
					w.is(r, "not_registered")
				})
			}
		}
	}
}

// TestAttack12_DoubleFork: what a tool of a launched session starts behind its
// back, in a process session of its own, after its parents have ended, is still
// inside: its calls are the session's, its orders are refused. So is what a pid
// namespace hides from itself.
//
// The launcher makes the anchor the reaper of its orphans
// (launcher/launcher.go, register: PR_SET_CHILD_SUBREAPER).
func TestAttack12_DoubleFork(t *testing.T) {
	w := start(t)
	agent, err := w.Launch(w.Ctx(), nil, os.Args[0])
	w.Must(err)
	w.launched(agent, "Read", "pass")
	out := filepath.Join(w.Sandbox.Dir, "out")
	script := fmt.Sprintf(`exec >%[1]s.part 2>&1
for command in "approve %[2]s" "revoke --all" "verify %[2]s" "broker stop" "launch exec -- /bin/true"; do %[3]s $command; echo "= $?"; done
printf %%s '%[4]s' | %[5]s; echo "= $?"
mv %[1]s.part %[1]s`, out, agent.Session, w.Programs.Guard, payload("PreToolUse", "Read"), strings.Join(w.gate("decide"), " "))
	w.Must(os.WriteFile(out+".sh", []byte(script), 0o600))
	answers, err := agent.Do(w.Ctx(), sandbox.Order{Argv: []string{"/bin/sh", "-c", "setsid setsid sh " + out + ".sh </dev/null >/dev/null 2>&1 &"}})
	w.Must(err)
	if answers[0].Exit != 0 {
		t.Fatalf("%s", answers[0].Err)
	}
	w.eventually("the orphan is done", func() bool { _, err := os.Stat(out); return err == nil })
	text, err := os.ReadFile(out)
	w.Must(err)
	said := strings.Split(strings.TrimSuffix(string(text), "\n"), "= ")
	if len(said) != 7 {
		t.Fatalf("the orphan said %q", text)
	}
	for i, want := range []string{"not_operator", "not_operator", "not_operator", "not_operator", "nested_launch"} {
		if !strings.Contains(said[i], want) {
			t.Errorf("command %d of the orphan: %q, want %s", i+1, said[i], want)
		}
	}
	if !strings.HasSuffix(said[5], "{}\n") && !strings.HasSuffix(said[5], "{}") {
		t.Errorf("the orphan's gate: %q, want a pass", said[5])
	}
	if s := w.state(agent.Session); s != "UNVERIFIED" {
		t.Errorf("the session is %s", s)
	}
	t.Run("a pid namespace", func(t *testing.T) {
		w.T = t
		anchor := w.Start()
		id := w.session(anchor, "exec")
		first := anchor.SpawnInPIDNamespace(false)
		middle := first.Spawn(false, false)
		orphan := middle.Spawn(false, true)
		middle.Kill()
		w.expect(orphan, "Read", "pass")
		w.expect(orphan, "Write", "lease_unverified")
		w.refused(orphan, w.Paths.OperatorSocket, approve(id), "not_operator")
	})
}

// launched holds a call of a launched agent to a verdict.
func (w *world) launched(a *sandbox.Agent, tool, want string) {
	w.T.Helper()
	answers, err := a.Do(w.Ctx(), a.Gate("decide", []byte(payload("PreToolUse", tool))))
	w.Must(err)
	w.is(wire.Reply{Exit: uint8(answers[0].Exit), Out: answers[0].Out, Err: answers[0].Err}, want)
}

// TestAttack13_OtherSessionsPlace: a process of one session takes on all that it
// can of another's: its cgroup, its environment, its ids. Its calls stay its own
// session's, whose lease is missing.
//
// Only lineage says whose a process is (broker/session/registry.go, Find).
func TestAttack13_OtherSessionsPlace(t *testing.T) {
	w := start(t)
	mine, theirs := w.Start(), w.Start()
	id, other := w.session(mine, "exec"), w.verified(theirs)
	tool := mine.Spawn(false, false)
	if group := cgroupOf(theirs.PID); group != "" {
		if err := os.WriteFile(group, []byte(pid(tool)), 0o600); err != nil {
			t.Logf("joining the other's cgroup: %v", err)
		}
	}
	forged := strings.Replace(payload("PreToolUse", "Write"), `"conversation"`, `"`+other+`"`, 1)
	w.is(w.ask(tool, w.Paths.BrokerSocket, event(0, forged)), "lease_unverified")
	env := []string{"/usr/bin/env", "GUARD_SESSION=" + other, "GUARD_GENERATION=1"}
	w.is(reply(tool.Run(false, forged, append(env, w.gate("decide")...)...)), "lease_unverified")
	w.eventually("both are on record as its own", func() bool {
		return len(w.records(func(r audit.Record) bool { return r.Code == "lease_unverified" && r.Session == id })) == 2
	})
	w.expect(theirs, "Write", "pass")
}

// cgroupOf is the file by which a process would join the other's cgroup.
func cgroupOf(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return ""
	}
	for _, line := range strings.Split(string(text), "\n") {
		part := strings.SplitN(line, ":", 3)
		if len(part) != 3 {
			continue
		}
		for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/" + part[1]} {
			file := filepath.Join(root, part[2], "cgroup.procs")
			if _, err := os.Stat(file); err == nil {
				return file
			}
		}
	}
	return ""
}

// TestAttack14_SecondRegistration: nobody becomes the anchor of a second
// session who is one already, is inside one, or has one below.
//
// The registry compares the newcomer and all its ancestors with the anchors that
// live (broker/session/add.go, admit).
func TestAttack14_SecondRegistration(t *testing.T) {
	onKernels(t, func(t *testing.T, w *world) {
		w.T = t
		parent := w.Start()
		anchor := parent.Spawn(false, false)
		id := w.session(anchor, "exec")
		child := anchor.Spawn(false, true)
		grandchild := child.Spawn(false, true)
		for name, p := range map[string]*testproc.Proc{"the anchor": anchor, "a child": child, "a grandchild": grandchild, "the parent": parent} {
			for _, runtime := range []string{"exec", "claude"} {
				if res := w.result(w.ask(p, w.Paths.BrokerSocket, register(runtime))); res.Error == nil || res.Error.Code != "nested_launch" {
					t.Errorf("%s became an anchor: %+v", name, res)
				}
			}
		}
		if all := w.sessions(); len(all) != 1 || all[0].ID != id {
			t.Errorf("%d sessions: %+v", len(all), all)
		}
	})
}

// TestAttack28_OrphanFakesHostEvent: in a session of a real host's, orphans that
// the anchor has adopted, tools and forgers run the gate, or speak like one, to
// be taken for the host. They are judged, and nothing more: no gate is seen, no
// recovery opens, no alarm is raised.
//
// The host's own event comes from the installed gate, a child of the anchor, on
// a socketpair that the anchor made (broker/own.go, hostsOwn).
func TestAttack28_OrphanFakesHostEvent(t *testing.T) {
	onKernels(t, func(t *testing.T, w *world) {
		w.T = t
		anchor := w.Start()
		anchor.Subreaper()
		id := w.session(anchor, "claude")
		orphaned := func() *testproc.Proc { return orphan(anchor.Spawn(false, false), anchor) }
		becomes := func(p *testproc.Proc, body, role string) { w.becomes(id, p, body, w.gate(role)) }
		orphan, tool := orphaned(), anchor.Spawn(false, true)
		read, post := payload("PreToolUse", "Read"), payload("PostToolUse", "Write")
		fakes := map[string]func(){
			"an orphan runs the gate":    func() { w.is(reply(orphan.Run(false, read, w.gate("decide")...)), "pass") },
			"an orphan becomes the gate": func() { becomes(orphaned(), read, "decide") },
			"a tool becomes the gate":    func() { becomes(anchor.Spawn(false, false), read, "decide") },
			"a tool runs the gate":       func() { w.is(reply(tool.Run(false, read, w.gate("decide")...)), "pass") },
			"a tool's pipe":              func() { w.is(reply(tool.Run(true, read, w.gate("decide")...)), "pass") },
			"a tool passes the anchor's pair on": func() {
				w.is(reply(anchor.Run(false, read, append([]string{"/bin/sh", "-c", `"$@"; exit $?`, "sh"}, w.gate("decide")...)...)), "pass")
			},
			"the anchor's pipe":               func() { w.is(reply(anchor.Run(true, read, w.gate("decide")...)), "pass") },
			"an orphan writes what it writes": func() { w.is(w.ask(orphan, w.Paths.BrokerSocket, event(anchor.PID, read)), "pass") },
			"a tool writes what it writes":    func() { w.is(w.ask(tool, w.Paths.BrokerSocket, event(anchor.PID, read)), "pass") },
			"a call that never asked":         func() { orphan.Run(false, post, w.gate("observe")...) },
			"another conversation": func() {
				orphan.Run(false, strings.Replace(read, `"conversation"`, `"another"`, 1), w.gate("decide")...)
			},
		}
		for name, fake := range fakes {
			fake()
			w.unseen(id, name)
		}
		w.T = t
		w.is(reply(anchor.Run(false, read, w.gate("decide")...)), "pass")
		w.approve(id) // it was the host itself
		w.expect(anchor, "Write", "pass")
	})
}

// orphan is a child of a process that has ended by now, under whom that was.
func orphan(middle, anchor *testproc.Proc) *testproc.Proc {
	child := middle.Spawn(false, true)
	middle.Kill()
	middle.Reap(anchor)
	return child
}

// becomes makes p a program that asks about a call of a session, and waits until
// that was judged.
func (w *world) becomes(id string, p *testproc.Proc, stdin string, argv []string) {
	w.T.Helper()
	before := w.find(id).Calls
	p.BecomeWith(false, stdin, argv...)
	w.eventually("its call is judged", func() bool { return w.find(id).Calls > before })
}

// unseen demands that after a fake the session is as one whose host was never
// heard.
func (w *world) unseen(id, fake string) {
	w.T.Helper()
	if s := w.find(id); s.GateSeen || s.Alarm != "" {
		w.T.Fatalf("%s: gate seen %v, alarm %q", fake, s.GateSeen, s.Alarm)
	}
	if res := w.operate(wire.Control{Verb: wire.VerbApprove, Session: id, Documents: documents}); res.Error == nil || res.Error.Code != "gate_unseen" {
		w.T.Fatalf("%s: approved without the host: %+v", fake, res)
	}
}

// TestAttack28_ParentEndsUnderTheGate: a tool makes a socket pair, starts the gate
// on it, and ends while the gate asks: when the gate looked its parent had made
// its stdin, and when the broker looks its parent is the anchor. It is judged,
// and taken for nobody.
//
// The gate says who made its stdin, and the broker compares that with the anchor
// (gate/exchange.go, readPayload; broker/own.go, hostsOwn).
func TestAttack28_ParentEndsUnderTheGate(t *testing.T) {
	onKernels(t, func(t *testing.T, w *world) {
		w.T = t
		anchor := w.Start()
		anchor.Subreaper()
		id := w.session(anchor, "claude")
		asked := func(name string, try func(tool *testproc.Proc)) {
			before := w.find(id).Calls
			tool := anchor.Spawn(false, false)
			try(tool)
			tool.Reap(anchor)
			w.eventually("its call is judged", func() bool { return w.find(id).Calls > before })
			if s := w.find(id); s.GateSeen || s.Alarm != "" {
				t.Fatalf("%s: gate seen %v, alarm %q", name, s.GateSeen, s.Alarm)
			}
		}
		read := payload("PreToolUse", "Read")
		asked("while the broker stands still", func(tool *testproc.Proc) {
			w.stopped(func() {
				before := w.queued()
				tool.Begin(read, w.gate("decide")...)
				w.eventually("the gate asks", func() bool { return w.queued() > before })
				tool.Kill()
			})
		})
		for i := range sandboxtest.Size(20, 500) { // at any other moment
			asked("in time", func(tool *testproc.Proc) {
				tool.Begin(read, w.gate("decide")...)
				for end := time.Now().Add(time.Duration(i%20) * 200 * time.Microsecond); time.Now().Before(end); {
				}
				tool.Kill()
			})
		}
		w.is(reply(anchor.Run(false, read, w.gate("decide")...)), "pass")
		if !w.find(id).GateSeen {
			t.Error("the host's own gate isn't seen")
		}
	})
}

// queued is how many ends the broker's socket has in the kernel: its own, and
// those that wait to be taken.
func (w *world) queued() int {
	w.T.Helper()
	text, err := os.ReadFile("/proc/net/unix")
	w.Must(err)
	return strings.Count(string(text), w.Paths.BrokerSocket+"\n")
}
