package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/sandbox"
)

const (
	write    = `{"file_path":"/srv/a","content":"x"}`
	powerOff = "mcp__vsphere__power_off_vm"
)

// record returns the newest verdict's audit record, once it is on disk.
func (w *world) record() audit.Record {
	w.T.Helper()
	var last audit.Record
	w.Must(w.Wait(w.Ctx(), func() bool {
		n := 0
		err := audit.Read(w.Paths.AuditDir, func(r audit.Record, _ []byte) error {
			if r.Event == audit.EventVerdict && r.Session == w.agent.Session {
				n, last = n+1, r
			}
			return nil
		})
		return err == nil && n >= w.agent.Calls()
	}))
	return last
}

// TestVerdictsWithoutLease are the rows that need no lease, each through the
// real gate.
func TestVerdictsWithoutLease(t *testing.T) {
	w := start(t, setting{noZVM: true})
	tests := []struct{ name, tool, input, verdict, code string }{
		{"Read passes", "Read", `{"file_path":"/etc/hostname"}`, "pass", "read_class"},
		{"Grep passes", "Grep", `{"pattern":"x","path":"/srv"}`, "pass", "read_class"},
		{"Glob passes", "Glob", `{"pattern":"*.go"}`, "pass", "read_class"},
		{"Ls passes", "Ls", `{"path":"/"}`, "pass", "read_class"},
		{"Find passes", "Find", `{"pattern":"x"}`, "pass", "read_class"},
		{"a read of guard's own state", "Read", fmt.Sprintf(`{"file_path":%q}`, w.Paths.DB), "deny", "guard_file"},
		{"a read of guard's configuration by a detour", "Read", fmt.Sprintf(`{"file_path":%q}`, filepath.Dir(w.Paths.Config)+"/../guard/./guard.toml"), "deny", "guard_file"},
		{"Bash", "Bash", `{"command":"ls"}`, "deny", "lease_unverified"},
		{"Write", "Write", write, "deny", "lease_unverified"},
		{"a read-only tool of the catalog", "mcp__vsphere__list_vms", `{}`, "deny", "lease_unverified"},
		{"an unlisted tool", "mcp__x__y", `{}`, "deny", "lease_unverified"},
		{"lease only", "WebFetch", `{"url":"http://x"}`, "deny", "lease_unverified"},
		{"read in lower case is no Claude tool", "read", `{"file_path":"/etc/hostname"}`, "deny", "lease_unverified"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w.T = t
			w.expect(w.call(tt.tool, tt.input), tt.verdict, tt.code)
			if r := w.record(); r.Code != tt.code || r.Verdict != tt.verdict || r.Tool != tt.tool {
				t.Errorf("recorded %s %s for %s, want %s %s", r.Verdict, r.Code, r.Tool, tt.verdict, tt.code)
			}
		})
	}
}

// TestVerdictsWithLease are the rows of a VERIFIED session.
func TestVerdictsWithLease(t *testing.T) {
	w := start(t, setting{})
	w.approve()
	tests := []struct{ name, tool, input, verdict, code string }{
		{"Write", "Write", write, "pass", "checkpoint_confirmed"},
		{"Bash", "Bash", `{"command":"ls"}`, "pass", "checkpoint_confirmed"},
		{"lease only", "WebFetch", `{"url":"http://x"}`, "pass", "lease_only"},
		{"catalog says read-only", "mcp__vsphere__list_vms", `{}`, "pass", "catalog_read_only"},
		{"a healthy VM", powerOff, `{"vm_name":"db-01"}`, "pass", "checkpoint_confirmed"},
		{"a VM in two VPGs", powerOff, `{"vm_name":"multi-01"}`, "pass", "checkpoint_confirmed"},
		{"protected by AWS", powerOff, `{"vm_name":"win-aws-01"}`, "deny", "checkpoint_unsupported"},
		{"protected by Azure", powerOff, `{"vm_name":"az-01"}`, "deny", "checkpoint_unsupported"},
		{"two machines of one name", powerOff, `{"vm_name":"twin"}`, "deny", "vm_ambiguous"},
		{"paused", powerOff, `{"vm_name":"paused-01"}`, "deny", "checkpoint_failed"},
		{"unknown to Zerto", powerOff, `{"vm_name":"ghost-01"}`, "ask", "vm_unknown"},
		{"a name that fits in another case only", powerOff, `{"vm_name":"DB-01"}`, "deny", "vm_ambiguous"},
		{"no machine", powerOff, `{"force":true}`, "ask", "vm_missing"},
		{"an empty name", powerOff, `{"vm_name":""}`, "ask", "vm_missing"},
		{"a folded key beside", powerOff, `{"VM_NAME":"db-01"}`, "deny", "malformed"},
		{"a name that is no string", powerOff, `{"vm_name":{"a":1}}`, "deny", "malformed"},
		{"not in the catalog", "mcp__x__y", `{"vm_name":"db-01"}`, "ask", "tool_unlisted"},
		{"not in the catalog, though it ends in Read", "mcp__files__Read", `{}`, "ask", "tool_unlisted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w.T = t
			w.expect(w.call(tt.tool, tt.input), tt.verdict, tt.code)
			r := w.record()
			if r.Code != tt.code || r.Verdict != tt.verdict {
				t.Fatalf("recorded %s %s, want %s %s", r.Verdict, r.Code, tt.verdict, tt.code)
			}
			if tt.code == "checkpoint_confirmed" && (len(r.Checkpoint) == 0 || r.Checkpoint[0].Tag == "" || r.Checkpoint[0].ID == "" || len(r.InputSHA256) != 64) {
				t.Fatalf("recorded checkpoints %+v, input %q: want tag, id and the input's digest", r.Checkpoint, r.InputSHA256)
			}
		})
	}
	w.T = t
	if out := w.Run("audit", "verify"); !strings.Contains(out, "ok") {
		t.Errorf("guard audit verify: %s", out)
	}
}

// TestPassTellsTheCheckpoint: the model hears which checkpoint would undo it.
func TestPassTellsTheCheckpoint(t *testing.T) {
	w := start(t, setting{})
	w.approve()
	told := w.expect(w.call(powerOff, `{"vm_name":"multi-01"}`), "pass", "")
	info := w.record().Checkpoint
	if len(info) != 2 {
		t.Fatalf("%d checkpoints for a VM in two VPGs", len(info))
	}
	for _, c := range info {
		for _, want := range []string{c.Tag, c.ID, c.VPG, c.VM, c.Time.UTC().Format("2006-01-02T15:04:05Z")} {
			if !strings.Contains(told, want) {
				t.Errorf("the model was told %q, without %q", told, want)
			}
		}
	}
}

// TestLeaseRows walks the lease through what makes it end.
func TestLeaseRows(t *testing.T) {
	w := start(t, setting{})
	w.expect(w.call("Write", write), "deny", "lease_unverified")
	w.Run("verify", w.agent.Session)
	w.expect(w.call("Write", write), "deny", "lease_pending")
	w.Run("approve", w.agent.Session)
	w.expect(w.call("Write", write), "pass", "")
	w.Run("revoke", w.agent.Session)
	w.expect(w.call("Write", write), "deny", "lease_revoked")
	w.Run("approve", w.agent.Session, "--ttl", "1s")
	w.Must(w.Wait(w.Ctx(), func() bool {
		st, err := w.Status(w.Ctx())
		return err == nil && st.Sessions[0].State == "UNVERIFIED"
	}))
	w.expect(w.call("Write", write), "deny", "lease_expired")
}

// TestObserversRevoke: what tells of lost context ends the lease, a change of
// the host's session id too (case R1 for an exec session).
func TestObserversRevoke(t *testing.T) {
	w := start(t, setting{})
	w.approve()
	for _, tt := range []struct{ name, role, payload string }{
		{"clear", "observe", `{"hook_event_name":"SessionStart","session_id":"scripted-conversation","source":"clear"}`},
		{"compact", "observe", `{"hook_event_name":"SessionStart","session_id":"scripted-conversation","source":"compact"}`},
		{"resume", "observe", `{"hook_event_name":"SessionStart","session_id":"scripted-conversation","source":"resume"}`},
		{"fork", "observe", `{"hook_event_name":"SessionStart","session_id":"scripted-conversation","source":"fork"}`},
		{"before compaction", "observe", `{"hook_event_name":"PreCompact","session_id":"scripted-conversation","trigger":"auto"}`},
		{"after compaction", "observe", `{"hook_event_name":"PostCompact","session_id":"scripted-conversation","trigger":"auto"}`},
		{"another conversation", "decide", `{"hook_event_name":"PreToolUse","session_id":"B","tool_name":"Read","tool_input":{}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.T = t
			w.Run("approve", w.agent.Session)
			a := w.raw(tt.role, tt.payload)
			if tt.role == "observe" && (a.Exit != 0 || len(a.Out)+len(a.Err) != 0) {
				t.Errorf("an observer answered exit %d, %q, %q", a.Exit, a.Out, a.Err)
			}
			w.expect(w.call("Write", write), "deny", "lease_revoked")
		})
	}
	w.T = t
	w.Run("approve", w.agent.Session)
	w.raw("observe", `{"hook_event_name":"SessionStart","session_id":"scripted-conversation","source":"startup"}`)
	w.expect(w.call("Write", write), "pass", "")
}

// TestPolicyKeys: what the operator chose for the rows that may ask.
func TestPolicyKeys(t *testing.T) {
	for _, tt := range []struct{ name, keys, verdict string }{
		{"deny", "unknown_vm = \"deny\"\nno_vm = \"deny\"\nunlisted = \"deny\"", "deny"},
		{"allow", "unknown_vm = \"allow\"\nno_vm = \"allow\"\nunlisted = \"allow\"", "pass"},
		{"ask, but nobody is asked", `on_ask = "deny"`, "deny"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := start(t, setting{checkpoint: "self = \"app-01\"\n" + tt.keys})
			w.approve()
			for _, call := range []struct{ tool, input, code string }{
				{powerOff, `{"vm_name":"ghost"}`, "vm_unknown"}, {powerOff, `{}`, "vm_missing"}, {"mcp__x__y", `{}`, "tool_unlisted"},
			} {
				w.expect(w.call(call.tool, call.input), tt.verdict, call.code)
				if r := w.record(); r.Code != call.code {
					t.Errorf("recorded %s, want %s", r.Code, call.code)
				}
			}
		})
	}
}

// TestWithoutProtection: what an operator left out denies, and says so.
func TestWithoutProtection(t *testing.T) {
	t.Run("no zvm", func(t *testing.T) {
		w := start(t, setting{noZVM: true})
		w.approve()
		if reason := w.expect(w.call("Write", write), "deny", "checkpoint_failed"); !strings.Contains(reason, "[zvm]") {
			t.Errorf("the reason doesn't say what is missing: %s", reason)
		}
	})
	t.Run("no self", func(t *testing.T) {
		w := start(t, setting{checkpoint: `no_vm = "allow"`})
		w.approve()
		if reason := w.expect(w.call("Write", write), "deny", "checkpoint_failed"); !strings.Contains(reason, "checkpoint.self") {
			t.Errorf("the reason doesn't say what is missing: %s", reason)
		}
	})
	t.Run("self is none", func(t *testing.T) {
		w := start(t, setting{noZVM: true, checkpoint: `self = "none"`})
		w.approve()
		w.expect(w.call("Write", write), "pass", "")
		if r := w.record(); r.Code != "self_unprotected" {
			t.Errorf("recorded %s", r.Code)
		}
		w.expect(w.call(powerOff, `{"vm_name":"db-01"}`), "deny", "checkpoint_failed")
	})
}

// gate is the command line of a gate that no session gave.
func (w *world) gate() []string {
	return []string{w.Programs.Gate, "claude", "--socket", w.Paths.BrokerSocket, "--broker-uid", strconv.Itoa(os.Getuid()), "--role", "decide"}
}

// run runs a program outside of the session.
func (w *world) run(cmd *exec.Cmd, payload string) sandbox.Answer {
	var out, errs strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(payload), &out, &errs
	_ = cmd.Run() // the answer says it all
	return sandbox.Answer{Out: []byte(out.String()), Err: []byte(errs.String()), Exit: cmd.ProcessState.ExitCode()}
}

// outside asks the gate from outside of every session.
func (w *world) outside(payload string) sandbox.Answer {
	argv := w.gate()
	return w.run(exec.Command(argv[0], argv[1:]...), payload)
}

// proving asks the gate below a launcher that hasn't exec'd yet.
func (w *world) proving(payload string) sandbox.Answer {
	w.T.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(w.Env, roleVar+"=registrar", "E2E_GATE="+w.Programs.Gate)
	a := w.run(cmd, payload)
	var inner sandbox.Answer
	w.Must(json.Unmarshal(a.Out, &inner))
	return inner
}

// nested asks the gate below a program that is called like a runtime.
func (w *world) nested(t *testing.T, payload string) sandbox.Answer {
	w.T.Helper()
	codex := filepath.Join(t.TempDir(), "codex")
	shell, err := os.ReadFile("/bin/sh")
	w.Must(err)
	w.Must(os.WriteFile(codex, shell, 0o755))
	answers, err := w.agent.Do(w.Ctx(), sandbox.Order{Argv: []string{codex, "-c", strings.Join(w.gate(), " ") + "; exit $?"}, Stdin: []byte(payload)})
	w.Must(err)
	return answers[0]
}

// TestOutsiders: who isn't in a live session, or not the session's own runtime.
func TestOutsiders(t *testing.T) {
	w := start(t, setting{noZVM: true})
	w.expect(w.outside(bashDoc), "deny", "not_registered")
	w.expect(w.proving(bashDoc), "deny", "proving")
	w.expect(w.nested(t, bashDoc), "deny", "nested_runtime")
	w.expect(w.call("Read", `{}`), "pass", "") // the session's own gate is untouched
	a := w.raw("decide", `{"hook_event_name":"ConfigChange","session_id":"scripted-conversation","source":"project_settings","file_path":"/x"}`)
	if a.Exit != 2 || !strings.HasPrefix(string(a.Err), "guard: config_change:") {
		t.Errorf("a changed settings file: exit %d, stderr %q", a.Exit, a.Err)
	}
}

// TestI7_OrphansOfADeadSession: authority ends with the anchor, however long
// its offspring lives.
func TestI7_OrphansOfADeadSession(t *testing.T) {
	w := start(t, setting{noZVM: true})
	marker := filepath.Join(t.TempDir(), "answer")
	script := fmt.Sprintf("(while kill -0 %d 2>/dev/null; do sleep 0.02; done; %s >%s.tmp 2>&1; mv %s.tmp %s) </dev/null >/dev/null 2>&1 &",
		w.agent.PID(), strings.Join(w.gate(), " "), marker, marker, marker)
	_, err := w.agent.Do(w.Ctx(), sandbox.Order{Argv: []string{"/bin/sh", "-c", script}})
	w.Must(err)
	w.agent.End()
	w.Must(w.Wait(w.Ctx(), func() bool { _, err := os.Stat(marker); return err == nil }))
	text, err := os.ReadFile(marker)
	w.Must(err)
	if !strings.Contains(string(text), `"permissionDecision":"deny"`) {
		t.Errorf("an orphan of a dead session got %s", text)
	}
}
