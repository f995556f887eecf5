//go:build hosts

package hosts

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/sandbox"
	"leaseguard.internal/internal/wire"
	"leaseguard.internal/internal/zvmsim"
)

// fake is a host of our own in a session of its own: it sends the gate what no
// honest host would.
type fake struct {
	t     *testing.T
	box   *sandbox.Sandbox
	agent *sandbox.Agent
}

// newFake launches one on the machine app-01.
func newFake(t *testing.T) *fake {
	t.Helper()
	runtime.LockOSThread() // the broker dies with the thread that started it
	bin := filepath.Join(filepath.Dir(self), "bin")
	box, err := sandbox.New(client.Programs{
		Guard: filepath.Join(bin, "guard"), Broker: filepath.Join(bin, "guard-broker"), Gate: filepath.Join(bin, "guard-gate"),
	}, []string{"PATH=/usr/local/bin:/usr/bin:/bin"})
	must(t, err)
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	fast, err := zvmsim.Preset("fast")
	must(t, err)
	must(t, box.StartSimulator(zvmsim.Options{Behaviour: &fast}))
	zvm, err := box.ZVM()
	must(t, err)
	must(t, box.Configure(zvm+catalogText+"\n[checkpoint]\nself = \"app-01\"\n"))
	must(t, box.StartBroker(t.Context()))
	f := &fake{t: t, box: box}
	f.agent, err = box.Launch(t.Context(), nil, self, "play-agent")
	must(t, err)
	return f
}

// event sends one, and gives verdict and code. more are further keys.
func (f *fake) event(name, session, use, tool, input string, more object) (verdict, code string) {
	f.t.Helper()
	payload := object{"hook_event_name": name, "session_id": session, "cwd": "/"}
	role := "observe"
	if tool != "" {
		var in object
		must(f.t, json.Unmarshal([]byte(input), &in))
		payload["tool_name"], payload["tool_use_id"], payload["tool_input"] = tool, use, in
	}
	if name == "PreToolUse" {
		role = "decide"
	}
	for k, v := range more {
		payload[k] = v
	}
	answers, err := f.agent.Do(f.t.Context(), f.agent.Gate(role, toJSON(f.t, payload)))
	must(f.t, err)
	if role == "observe" {
		if a := answers[0]; a.Exit != 0 || len(a.Out) != 0 {
			f.t.Errorf("%s was answered with %d, %q", name, a.Exit, a.Out)
		}
		return "", ""
	}
	verdict, detail := answers[0].Read()
	if verdict == "pass" {
		return verdict, "" // detail is what the model is told
	}
	return verdict, sandbox.Code(detail)
}

// asks demands a verdict.
func (f *fake) asks(session, use, tool, input string, more object, want string) {
	f.t.Helper()
	if verdict, code := f.event("PreToolUse", session, use, tool, input, more); strings.TrimSpace(verdict+" "+code) != want {
		f.t.Errorf("%s of %s: %s %s, want %s", tool, session, verdict, code, want)
	}
}

func (f *fake) guard(args ...string) error {
	_, err := f.box.Guard(f.t.Context(), append(args, f.agent.Session)...)
	return err
}

func (f *fake) session() wire.Session {
	f.t.Helper()
	st, err := f.box.Status(f.t.Context())
	must(f.t, err)
	for _, s := range st.Sessions {
		if s.ID == f.agent.Session {
			return s
		}
	}
	return wire.Session{}
}

// TestS1_DishonestHost: what ran other than it was judged takes the lease, and
// locks promotion until an operator has looked.
func TestS1_DishonestHost(t *testing.T) {
	t.Parallel()
	const write, power = `{"file_path":"/x","content":"y"}`, "mcp__vsphere__power_off_vm"
	subagent := object{"agent_id": "a-7", "agent_type": "Explore"}
	f := newFake(t)
	for i, c := range []struct {
		name, alarm string
		do          func(id string)
	}{
		{"denied in a subagent, and ran", "verdict_ignored", func(id string) {
			must(t, f.guard("revoke"))
			f.asks("c", id, "Write", write, subagent, "deny lease_revoked")
			must(t, f.guard("approve"))
			f.event("PostToolUse", "c", id, "Write", write, subagent)
		}},
		{"never asked", "ungated_call", func(id string) { f.event("PostToolUse", "c", id, "Write", write, nil) }},
		{"another input", "input_changed", func(id string) {
			f.asks("c", id, "Write", write, nil, "pass")
			f.event("PostToolUse", "c", id, "Write", `{"file_path":"/x","content":"z"}`, nil)
		}},
		{"asked, and ran without a lease", "asked_ran_without_lease", func(id string) {
			f.asks("c", id, power, `{"vm_name":"nobody"}`, nil, "ask vm_unknown")
			must(t, f.guard("revoke"))
			f.event("PostToolUse", "c", id, power, `{"vm_name":"nobody"}`, nil)
		}},
		{"as judged", "", func(id string) {
			f.asks("c", id, "Write", write, nil, "pass")
			f.event("PostToolUse", "c", id, "Write", `{"content":"y","file_path":"/x"}`, nil)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.event("SessionStart", "c", "", "", "", object{"source": "startup"})
			must(t, f.guard("approve"))
			c.do(fmt.Sprintf("toolu_%d", i))
			s := f.session()
			if want := map[bool]string{true: "VERIFIED", false: "UNVERIFIED"}[c.alarm == ""]; s.Alarm != c.alarm || s.State != want {
				t.Errorf("the session is %s with alarm %q, want %s and %q", s.State, s.Alarm, want, c.alarm)
			}
			if c.alarm == "" {
				return
			}
			if err := f.guard("approve"); err == nil || !strings.Contains(err.Error(), "guard: alarm_raised: ") {
				t.Errorf("approve: %v", err)
			}
			f.asks("c", "late", "Write", write, nil, "deny lease_revoked")
			must(t, f.guard("approve", "--clear-alarm"))
			f.asks("c", "cleared", "Write", write, nil, "pass")
		})
	}
}

// TestR1_ConversationChanges: another session id of the host on the same anchor
// ends the lease, for the new conversation and for the one before.
func TestR1_ConversationChanges(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	const write = `{"file_path":"/x","content":"y"}`
	f.asks("A", "1", "Write", write, nil, "deny lease_unverified")
	must(t, f.guard("approve"))
	f.asks("A", "2", "Write", write, nil, "pass")
	f.asks("B", "3", "Write", write, nil, "deny lease_revoked")
	f.asks("A", "4", "Write", write, nil, "deny lease_revoked")
	if s := f.session(); s.State != "UNVERIFIED" || s.Generation != 1 {
		t.Errorf("the session is %+v", s)
	}
}
