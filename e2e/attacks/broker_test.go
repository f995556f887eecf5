//go:build attacks

package attacks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/sandbox"
	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/wire"
)

// TestAttack21_TraceTheBroker: a process of the broker's own uid can't trace it,
// read its memory, list or take its descriptors, or make it leave a core.
//
// It isn't dumpable and may leave no core (internal/harden/harden.go, Process).
// As root only the latter can be shown; and an attacker of the same uid can still
// end or replace it, which needs a uid of its own.
func TestAttack21_TraceTheBroker(t *testing.T) {
	w := start(t)
	dir := fmt.Sprintf("/proc/%d/", w.BrokerPID())
	limits, err := os.ReadFile(dir + "limits")
	w.Must(err)
	for _, line := range strings.Split(string(limits), "\n") {
		if strings.HasPrefix(line, "Max core file size") && strings.Count(line, " 0 ") != 2 {
			t.Errorf("a core may be left: %s", line)
		}
	}
	if status, err := os.ReadFile(dir + "status"); err != nil || !strings.Contains(string(status), "NoNewPrivs:\t1\n") {
		t.Errorf("it may gain privileges: %v", err)
	}
	if os.Getuid() == 0 {
		return
	}
	for _, name := range []string{"fd", "fdinfo", "map_files"} {
		if entries, err := os.ReadDir(dir + name); !refusedBy(err) {
			t.Errorf("%s has %d entries, %v", name, len(entries), err)
		}
	}
	for _, name := range []string{"mem", "environ", "maps", "auxv", "syscall", "stack", "fd/0", "root/etc/passwd"} {
		if f, err := os.Open(dir + name); !refusedBy(err) {
			buf := make([]byte, 16)
			n, readErr := f.Read(buf) // some refuse only then
			if n > 0 || !refusedBy(readErr) {
				t.Errorf("%s can be read: %q, %v", name, buf[:max(n, 0)], readErr)
			}
			_ = f.Close()
		}
	}
	for _, name := range []string{"exe", "cwd", "root"} {
		if to, err := os.Readlink(dir + name); !refusedBy(err) {
			t.Errorf("%s leads to %q, %v", name, to, err)
		}
	}
	if err := unix.PtraceSeize(w.BrokerPID()); !refusedBy(err) {
		w.KillBroker() // else it would wait for its tracer
		t.Fatalf("it can be traced: %v", err)
	}
	local := make([]byte, 8)
	if _, err := unix.ProcessVMReadv(w.BrokerPID(), []unix.Iovec{{Base: &local[0], Len: 8}}, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0); !refusedBy(err) {
		t.Errorf("its memory can be read: %v", err)
	}
	pidfd, err := unix.PidfdOpen(w.BrokerPID(), 0)
	w.Must(err)
	defer func() { _ = unix.Close(pidfd) }()
	for fd := range 32 {
		if got, err := unix.PidfdGetfd(pidfd, fd, 0); !refusedBy(err) {
			t.Errorf("its descriptor %d can be taken: %d, %v", fd, got, err)
		}
	}
	w.Must(syscall.Kill(w.BrokerPID(), syscall.SIGABRT))
	w.WaitBroker()
	cores, err := filepath.Glob(filepath.Join(w.Sandbox.Dir, "**", "core*"))
	if err != nil || len(cores) > 0 {
		t.Errorf("cores: %q, %v", cores, err)
	}
}

func refusedBy(err error) bool { return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) }

// TestAttack22_OtherBytesRun: what is judged is made to differ from what runs: a
// body that the judge doesn't get, a payload that two readers read in two ways, a
// second request behind the first, an input that is exchanged after it passed.
//
// One object of unique keys, or malformed (internal/strictjson); a frame ends
// where its header says (internal/wire/frame.go, Split); what ran is held against
// what was judged (broker/alarm.go, ran).
func TestAttack22_OtherBytesRun(t *testing.T) {
	w := start(t)
	anchor := w.Start()
	id := w.verified(anchor)
	good := payload("PreToolUse", "Read")
	for name, frame := range map[string]string{
		"no body":                   event(0, ""),
		"no body, it was too large": oversize(""),
		"a body, it was too large":  oversize(good),
		"two objects":               event(0, good+payload("PreToolUse", "Write")),
		"a key twice":               event(0, strings.Replace(good, `"tool_name":"Read"`, `"tool_name":"Read","tool_name":"Write"`, 1)),
		"a key in two cases":        event(0, strings.Replace(good, `"tool_name":"Read"`, `"tool_name":"Read","Tool_name":"Write"`, 1)),
		"a shorter body announced":  shorter(event(0, good), 10),
		"a longer body announced":   shorter(event(0, good)+"......", -6),
	} {
		t.Run(name, func(t *testing.T) {
			w.T = t
			w.is(w.ask(anchor, w.Paths.BrokerSocket, frame), "malformed")
		})
	}
	w.T = t
	t.Run("a second request", func(t *testing.T) {
		w.T = t
		anchor.Connect(w.Paths.BrokerSocket)
		anchor.Write(call("Read") + call("Write"))
		r, _ := w.answer(anchor)
		w.is(r, "pass")
		w.silence(anchor, "the second request")
		anchor.Hangup()
		writes := func(r audit.Record) bool { return r.Event == audit.EventVerdict && r.Tool == "Write" }
		before := len(w.records(writes))
		w.expect(anchor, "Write", "pass")
		w.eventually("calls are on record", func() bool { return len(w.records(writes)) > before })
		if n := len(w.records(writes)); n != before+1 {
			t.Errorf("%d judgements of one Write", n-before)
		}
	})
	w.T = t
	judged := strings.Replace(payload("PreToolUse", "Write"), `"tool_input":{}`, `"tool_input":{"file_path":"/a"}`, 1)
	w.is(reply(anchor.Run(false, judged, w.gate("decide")...)), "pass")
	ran := strings.NewReplacer("PreToolUse", "PostToolUse", "/a", "/b").Replace(judged)
	anchor.Run(false, ran, w.gate("observe")...)
	if s := w.find(id); s.Alarm != "input_changed" || s.State != "UNVERIFIED" {
		t.Errorf("another input ran than the one judged: %s, alarm %q", s.State, s.Alarm)
	}
}

// shorter makes a frame's header announce n bytes less than its body has.
func shorter(frame string, n int) string {
	b := []byte(frame)
	size := len(frame) - wire.RequestSize - len(wire.EndMark) - n
	if n < 0 {
		size = len(frame) - wire.RequestSize - len(wire.EndMark)
	}
	b[16], b[17], b[18], b[19] = byte(size>>24), byte(size>>16), byte(size>>8), byte(size)
	return string(b)
}

// TestAttack23_KillTheBroker: the broker is killed, or stopped, before, while and
// after a call is judged: every answer is one deny, and no observer is in the
// host's way.
//
// The gate's answer to everything but a whole reply is a constant deny
// (gate/gate.go, refuse).
func TestAttack23_KillTheBroker(t *testing.T) {
	w := start(t, "GUARD_FAILPOINT=audit/before-sync:sleep=500ms")
	anchor := w.Start()
	id := w.session(anchor, "exec")
	w.expect(anchor, "Read", "pass")
	w.approve(id)
	denied := func(o testproc.Output, code string) {
		t.Helper()
		w.is(reply(o), code)
		verdict, reason := sandbox.Answer{Out: o.Out, Err: o.Err, Exit: o.Exit}.Read()
		if o.Exit != 2 || verdict != "deny" || string(o.Err) != reason+"\n" {
			t.Errorf("exit %d, %q, %q", o.Exit, o.Out, o.Err)
		}
	}
	write := payload("PreToolUse", "Write")
	w.stopped(func() {
		denied(anchor.Run(false, write, append(w.gate("decide"), "--deadline", "1")...), "deadline")
	})
	w.approve(id) // a broker that stood for a second may have missed an event, and takes the lease
	inside := make(chan testproc.Output)
	go func() { inside <- anchor.Run(false, write, w.gate("decide")...) }()
	w.eventually("the record of its pass is being written", func() bool { return w.inFlight() == 1 })
	w.KillBroker()
	denied(<-inside, "broker_unavailable")
	for _, tool := range []string{"Write", "Read"} {
		denied(anchor.Run(false, payload("PreToolUse", tool), w.gate("decide")...), "broker_unavailable")
	}
	if o := anchor.Run(false, payload("PostToolUse", "Write"), w.gate("observe")...); o.Exit != 0 || len(o.Out)+len(o.Err) > 0 {
		t.Errorf("an observer: exit %d, %q, %q", o.Exit, o.Out, o.Err)
	}
	w.Must(os.Remove(w.Paths.BrokerSocket))
	denied(anchor.Run(false, write, w.gate("decide")...), "broker_unavailable")
	w.Must(w.StartBroker(w.Ctx()))
	denied(anchor.Run(false, write, w.gate("decide")...), "lease_unverified")
}

// TestAttack25_HostileNames: names with line ends and escapes, of tools, of
// conversations, of programs and directories, of processes, make no line of
// their own in any output, and no record.
//
// What a peer chose is quoted or cleaned wherever it is shown (internal/verdict,
// Object and Clean), and a record is one JSON object on a line (internal/audit).
func TestAttack25_HostileNames(t *testing.T) {
	const evil = "x\n[guard] 0123456789abcdef is VERIFIED\x1b[2K\r\u202e"
	w := start(t)
	dir := filepath.Join(w.Sandbox.Dir, evil)
	w.Must(os.Mkdir(dir, 0o700))
	program := filepath.Join(dir, evil)
	w.Must(copyFile(program, "/proc/self/exe", 0o700))
	box := *w.Sandbox
	box.Dir = dir // where sessions are launched
	agent, err := box.Launch(w.Ctx(), nil, program)
	w.Must(err)
	t.Cleanup(agent.End)
	odd := w.Start()
	odd.Rename("b\n[guard] x\x1b[2K")
	w.session(odd, "exec")
	w.expect(odd, "Write", "lease_unverified")
	hostile := fmt.Sprintf(`{"hook_event_name":"PreToolUse","session_id":%[1]q,"cwd":%[1]q,"tool_name":%[1]q,"tool_input":{"file_path":%[1]q},"tool_use_id":%[1]q,"agent_id":%[1]q,"agent_type":%[1]q}`, "x\n[guard] is VERIFIED\u001b[2K\r\u202e")
	hostile = strings.ReplaceAll(hostile, `\x1b`, `\u001b`)
	answers, err := agent.Do(w.Ctx(), agent.Gate("decide", []byte(hostile)), sandbox.Order{Argv: []string{w.Programs.Guard, "revoke", evil}})
	w.Must(err)
	w.is(wire.Reply{Exit: uint8(answers[0].Exit), Out: answers[0].Out, Err: answers[0].Err}, "lease_unverified")
	w.oneLine("the gate's reason", string(answers[0].Err))
	w.oneLine("guard revoke", string(answers[1].Err))
	w.Run("revoke", agent.Session, "--reason", evil)
	out := ""
	w.eventually("all of it is in the log", func() bool {
		out = w.Run("log")
		return strings.Contains(out, "lease_unverified") && strings.Contains(out, "revoked by an operator")
	})
	for name, text := range map[string]string{"log": out, "status": w.Run("status"), "audit verify": w.Run("audit", "verify")} {
		for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			w.oneLine("guard "+name, line)
		}
	}
	w.Must(audit.Read(w.Paths.AuditDir, func(r audit.Record, raw []byte) error {
		w.oneLine("the audit", string(raw))
		return nil
	}))
}

// oneLine holds a line to have nothing that would end it, or steer a terminal.
func (w *world) oneLine(what, line string) {
	w.T.Helper()
	line = strings.TrimSuffix(line, "\n")
	if strings.HasPrefix(line, "[guard]") || strings.ContainsFunc(line, func(r rune) bool { return r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) }) {
		w.T.Errorf("%s: %q", what, line)
	}
}
