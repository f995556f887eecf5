//go:build attacks

package attacks

import (
	"strings"
	"testing"

	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/wire"
)

// A Codex is played by an anchor with a line, as its launcher leaves it. Its
// hooks have a pipe for stdin, stand below a shell, and inherit the line; its
// tools are shells in its own place of birth, and it has closed the line for them
// (docs/hosts.md says where that was measured).

// hook is how Codex runs its gate: the closing command, in words.
func (w *world) hook(role string) []string {
	gate := w.codexGate(role)
	if role == "observe" {
		return gate
	}
	return append([]string{"/bin/bash", "-c", `"$@" || exit 2`, "bash", "/usr/bin/timeout", "-s", "KILL", "60", "/usr/bin/env", "-i",
		"/bin/sh", "-c", `out=$("$@") && printf %s "$out"`, "sh"}, gate...)
}

func (w *world) codexGate(role string) []string {
	return append([]string{w.Programs.Gate, "codex"}, w.gate(role)[2:]...)
}

// codex is a payload of Codex's.
func codex(event, more string) string {
	return `{"session_id":"conversation","turn_id":"t","cwd":"/","hook_event_name":"` + event + `","model":"m","permission_mode":"bypassPermissions"` + more + `}`
}

func bashCall(event, id string) string {
	return codex(event, `,"tool_name":"Bash","tool_input":{"command":"touch x"},"tool_use_id":"`+id+`"`)
}

// startCodex is a session of one, and a tool that runs in it.
func (w *world) startCodex() (anchor, tool *testproc.Proc, id string) {
	w.T.Helper()
	anchor = w.Start()
	anchor.Subreaper()
	id = w.session(anchor, "codex")
	anchor.Line(wire.LineFD)
	return anchor, w.codexTool(anchor), id
}

func (w *world) codexTool(anchor *testproc.Proc) *testproc.Proc {
	w.T.Helper()
	tool := anchor.Spawn(false, true)
	tool.Close(wire.LineFD)
	return tool
}

// expectCode holds an answer to Codex's form of a pass, or a denial of this code.
func (w *world) expectCode(o testproc.Output, code string) {
	w.T.Helper()
	pass := o.Exit == 0 && string(o.Out) == "{}"
	if pass != (code == "pass") || !pass && (o.Exit != 2 || !strings.Contains(string(o.Err), "guard: "+code+":")) {
		w.T.Errorf("status %d, stdout %q, stderr %q, want %s", o.Exit, o.Out, o.Err, code)
	}
}

// TestAttack29_ToolOfCodexFakesHook: whatever a tool of Codex's does, it is judged
// and nothing more: no gate is seen, no alarm is raised, no conversation changes.
// A process that may trace the anchor could take the line from it
// (docs/hosts.md); this one doesn't.
//
// The host's own event comes from the installed gate with the line that the
// anchor has made (gate/exchange.go, readPayload; broker/own.go, hostsOwn).
func TestAttack29_ToolOfCodexFakesHook(t *testing.T) {
	onKernels(t, func(t *testing.T, w *world) {
		w.T = t
		anchor, tool, id := w.startCodex()
		ask, ran := bashCall("PreToolUse", "call_1"), bashCall("PostToolUse", "call_9")
		denied := func(o testproc.Output) { w.expectCode(o, "lease_unverified") }
		becomes := func(p *testproc.Proc, argv []string) { w.becomes(id, p, ask, argv) }
		orphaned := func() *testproc.Proc { return orphan(w.codexTool(anchor), anchor) }
		frame := func(body string) string {
			return string(wire.AppendRequest(nil, wire.Request{Kind: wire.KindEvent, Host: wire.HostCodex, Role: wire.RoleDecide, Peer: uint32(anchor.PID), Body: []byte(body)}))
		}
		for name, fake := range map[string]func(){
			"a tool runs the hook's command":    func() { denied(tool.Run(true, ask, w.hook("decide")...)) },
			"a tool becomes the hook's command": func() { becomes(w.codexTool(anchor), w.hook("decide")) },
			"a tool becomes the gate":           func() { becomes(w.codexTool(anchor), w.codexGate("decide")) },
			"a tool with a line of its own": func() {
				liar := w.codexTool(anchor)
				liar.Line(wire.LineFD)
				denied(liar.Run(true, ask, w.hook("decide")...))
			},
			"a tool that becomes it with a line of its own": func() {
				liar := w.codexTool(anchor)
				liar.Line(wire.LineFD)
				becomes(liar, w.hook("decide"))
			},
			"an orphan runs it":                       func() { denied(orphaned().Run(true, ask, w.hook("decide")...)) },
			"an orphan becomes it":                    func() { becomes(orphaned(), w.hook("decide")) },
			"a tool writes what a hook's gate writes": func() { w.ask(tool, w.Paths.BrokerSocket, frame(ask)) },
			"an orphan writes what it writes":         func() { w.ask(orphaned(), w.Paths.BrokerSocket, frame(ask)) },
			"in another host's words":                 func() { tool.Run(false, payload("PreToolUse", "Write"), w.gate("decide")...) },
			"a start of the conversation": func() {
				tool.Run(true, codex("SessionStart", `,"source":"startup"`), w.hook("observe")...)
			},
			"a call that never asked": func() { tool.Run(true, ran, w.hook("observe")...) },
			"another conversation": func() {
				denied(tool.Run(true, strings.Replace(ask, `"conversation"`, `"another"`, 1), w.hook("decide")...))
			},
			"the hook's command in the anchor, unlined": func() {
				denied(anchor.Run(true, ask, append([]string{"/bin/bash", "-c", `exec 200>&-; "$@"`, "x"}, w.hook("decide")...)...))
			},
		} {
			fake()
			w.unseen(id, name)
		}
		denied(anchor.Run(true, ask, w.hook("decide")...))
		w.approve(id) // it was the host itself
		w.expectCode(anchor.Run(true, ask, w.hook("decide")...), "pass")
	})
}

// TestS1_CodexRanThoughDenied: a subagent's call that was denied and ran all the
// same locks the session; so does one that never asked, and one whose input is
// another. A call that ran as it was judged doesn't.
func TestS1_CodexRanThoughDenied(t *testing.T) {
	child := func(payload string) string {
		return strings.Replace(payload, `"cwd"`, `"agent_id":"a-7","agent_type":"explorer","cwd"`, 1)
	}
	for name, tc := range map[string]struct {
		lease     bool
		ask, post string
		alarm     string
	}{
		"denied":            {false, child(bashCall("PreToolUse", "call_1")), child(bashCall("PostToolUse", "call_1")), "verdict_ignored"},
		"never asked":       {true, "", bashCall("PostToolUse", "call_1"), "ungated_call"},
		"another input ran": {true, bashCall("PreToolUse", "call_1"), strings.Replace(bashCall("PostToolUse", "call_1"), "touch x", "touch y", 1), "input_changed"},
		"ran as judged":     {true, bashCall("PreToolUse", "call_1"), bashCall("PostToolUse", "call_1"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			anchor, _, id := w.startCodex()
			anchor.Run(true, bashCall("PreToolUse", "call_0"), w.hook("decide")...)
			want := "lease_unverified"
			if tc.lease {
				w.approve(id)
				want = "pass"
			}
			if tc.ask != "" {
				w.expectCode(anchor.Run(true, tc.ask, w.hook("decide")...), want)
			}
			if o := anchor.Run(true, tc.post, w.hook("observe")...); o.Exit != 0 || len(o.Out)+len(o.Err) != 0 {
				t.Errorf("the observer says %+v", o)
			}
			w.eventually("the call that ran is heard of", func() bool { return w.find(id).Alarm == tc.alarm })
			if s := w.find(id); (s.State == "VERIFIED") != (tc.alarm == "") {
				t.Errorf("the lease is %s, with alarm %q", s.State, s.Alarm)
			}
		})
	}
}

// TestR1_CodexChangesConversation: another conversation on the same anchor, and
// every event that tells of lost context, ends the lease; a late call of the old
// conversation doesn't get it back.
func TestR1_CodexChangesConversation(t *testing.T) {
	for name, event := range map[string]struct{ role, payload string }{
		"another conversation": {"decide", strings.Replace(bashCall("PreToolUse", "call_2"), `"conversation"`, `"another"`, 1)},
		"compaction begins":    {"observe", codex("PreCompact", `,"trigger":"auto"`)},
		"compaction has ended": {"observe", codex("PostCompact", `,"trigger":"auto"`)},
		"it starts again":      {"observe", codex("SessionStart", `,"source":"compact"`)},
		"it is resumed":        {"observe", codex("SessionStart", `,"source":"resume"`)},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			anchor, _, id := w.startCodex()
			ask := func() testproc.Output { return anchor.Run(true, bashCall("PreToolUse", "call_1"), w.hook("decide")...) }
			ask()
			w.approve(id)
			w.expectCode(ask(), "pass")
			for _, harmless := range []string{"SubagentStart", "SubagentStop", "Interrupt"} {
				anchor.Run(true, codex(harmless, ""), w.hook("observe")...)
			}
			w.expectCode(ask(), "pass")
			anchor.Run(true, event.payload, w.hook(event.role)...)
			w.expectCode(ask(), "lease_revoked")
			if s := w.find(id); s.State != "UNVERIFIED" || s.Alarm != "" {
				t.Errorf("the lease is %s, alarm %q", s.State, s.Alarm)
			}
		})
	}
}

// TestR2_CodexResumed: the same conversation in a new process has no lease, and
// its gate has to be heard anew, whatever the payload calls the conversation.
func TestR2_CodexResumed(t *testing.T) {
	w := start(t)
	anchor, _, id := w.startCodex()
	anchor.Run(true, bashCall("PreToolUse", "call_1"), w.hook("decide")...)
	w.approve(id)
	w.expectCode(anchor.Run(true, bashCall("PreToolUse", "call_1"), w.hook("decide")...), "pass")
	anchor.Kill()
	w.eventually("the session has ended", func() bool { return w.find(id) == nil })
	again, _, next := w.startCodex()
	if s := w.find(next); s.State != "UNVERIFIED" || s.GateSeen {
		t.Errorf("a new process begins with %+v", s)
	}
	w.expectCode(again.Run(true, bashCall("PreToolUse", "call_1"), w.hook("decide")...), "lease_unverified")
	w.expectCode(again.Run(true, strings.Replace(bashCall("PreToolUse", "call_1"), `"conversation"`, `"C"`, 1), w.hook("decide")...), "lease_revoked")
}
